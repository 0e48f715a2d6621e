# SPDX-License-Identifier: BSD-3-Clause
# The classes of TRex's ASTF API, for profiles that import them. Their objects keep what the profile
# says; millrace_astf_programs.py makes a profile of Millrace from it.
import base64
import hashlib
import inspect
import ipaddress
import json
import os
import sys
import traceback

OUR_FOLDER = os.path.dirname(os.path.abspath(__file__))

# Things that have no effect here, as (place, text).
NOTES = []


class Refusal(Exception):
    """A part of a profile that Millrace does not support, with its place."""

    def __init__(self, text, place=None):
        super().__init__(text)
        self.text = text
        self.place = place or caller()


class RefusedName(Refusal, AttributeError):
    """An attribute that is not supported; hasattr() is false for it."""


def is_ours(path):
    return os.path.dirname(os.path.abspath(path)) == OUR_FOLDER


def caller():
    """Returns file and line of the profile that called this module."""
    frame = sys._getframe(1)
    while frame.f_back is not None and is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def note(text, place=None):
    entry = (place or caller(), text)
    if entry not in NOTES:
        NOTES.append(entry)


def as_list(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]


def check(value, kinds, name):
    """Refuses a value that is of none of these classes."""
    if not isinstance(value, kinds):
        kinds = kinds if isinstance(kinds, tuple) else (kinds,)
        names = " or ".join(kind.__name__ for kind in kinds)
        raise Refusal("{}: needs {}, not {!r}".format(name, names, value))
    return value


class ASTFProgram:
    """What one end of a connection does: a list of commands."""

    def __init__(self, file=None, side="c", commands=None, stream=True):
        if commands is not None:
            raise Refusal("ASTFProgram(commands=...) is not supported: call its methods")
        if side not in ("c", "s"):
            raise Refusal("ASTFProgram: side must be \"c\" or \"s\"")
        self.capture = None if file is None else file_beside_profile("ASTFProgram: file", file)
        self.side = side
        self.is_stream = bool(stream)
        self.commands = []

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        raise RefusedName("ASTFProgram.{}() is not supported".format(name))

    def _add(self, verb, *values):
        if self.capture is not None:
            raise Refusal("{}(): a program from a capture has no other commands".format(verb))
        self.commands.append((verb, values, caller()))

    def _add_for(self, is_stream, verb, *values):
        if self.is_stream != is_stream:
            has = "for TCP: this program has" if is_stream else "for UDP: this program lacks"
            raise Refusal("{}() is {} stream=False".format(verb, has))
        self._add(verb, *values)

    def connect(self):
        self._add_for(True, "connect")

    def accept(self):
        self._add_for(True, "accept")

    def send(self, buf, size=None, fill=None):
        self._add_for(True, "send", message("send", buf, size, fill))

    def send_chunk(self, l7_buf, chunk_size, delay_usec):
        data = message("send_chunk", l7_buf, None, None)
        if check(chunk_size, int, "send_chunk: chunk_size") < 1:
            raise Refusal("send_chunk: chunk_size must be at least 1")
        for begin in range(0, len(data), chunk_size):
            self.send(data[begin:begin + chunk_size])
            if delay_usec:
                self.delay(delay_usec)

    def recv(self, bytes, clear=False):
        self._add_for(True, "recv", check(bytes, int, "recv"), bool(clear))

    def send_msg(self, buf, size=None, fill=None):
        self._add_for(False, "send_msg", message("send_msg", buf, size, fill))

    def recv_msg(self, pkts, clear=False):
        self._add_for(False, "recv_msg", check(pkts, int, "recv_msg"), bool(clear))

    def close_msg(self):
        self._add_for(False, "close_msg")

    def set_keepalive_msg(self, msec, rx_mode=False):
        if self.is_stream:
            raise Refusal("set_keepalive_msg() is for UDP: this program lacks stream=False")
        note("set_keepalive_msg() has no effect: a UDP server waits 30 s for a datagram")

    def set_send_blocking(self, block):
        # Programs here never wait for acknowledgements.
        pass

    def delay(self, usec):
        time = microseconds("delay", usec)
        self._add("delay", time, time)

    def delay_rand(self, min_usec, max_usec):
        times = microseconds("delay_rand", min_usec), microseconds("delay_rand", max_usec)
        if times[0] > times[1]:
            raise Refusal("delay_rand: the second time is shorter than the first")
        self._add("delay", *times)

    def set_var(self, var_id, val):
        self._add("set_var", check(var_id, str, "set_var"), check(val, int, "set_var"))

    def set_label(self, label):
        self._add("set_label", label)

    def jmp_nz(self, var_id, label):
        self._add("jmp_nz", check(var_id, str, "jmp_nz"), label)

    def reset(self):
        self._add_for(True, "reset")

    def wait_for_peer_close(self):
        self._add_for(True, "wait_for_peer_close")


def file_beside_profile(name, file):
    """Returns the path of a file whose name is relative to the profile's folder."""
    file = os.fspath(check(file, (str, os.PathLike), name))
    return os.path.join(os.path.dirname(caller()[0]), file)


def message(verb, data, size, fill):
    """Returns the bytes to send: `data`, filled up to `size` bytes."""
    data = encode(verb, data)
    if size is not None and size > len(data):
        fill = encode(verb, fill if fill else "x")
        data += (fill * (size // len(fill) + 1))[:size - len(data)]
    if not data:
        raise Refusal("{}: needs at least 1 byte".format(verb))
    return data


def encode(verb, data):
    if isinstance(data, str):
        try:
            return data.encode("ascii")
        except UnicodeEncodeError:
            raise Refusal("{}: a string must be ASCII; use bytes".format(verb)) from None
    return bytes(check(data, (bytes, bytearray), verb))


def microseconds(verb, time):
    time = round(check(time, (int, float), verb))
    if not 0 <= time < 1 << 32:
        raise Refusal("{}: {} us is not from 0 to 4294967295".format(verb, time))
    return time


class ASTFIPGenDist:
    """A range of addresses."""

    def __init__(self, ip_range, distribution="seq", per_core_distribution=None):
        try:
            first, last = [ipaddress.IPv4Address(address) for address in ip_range]
        except (TypeError, ValueError):
            text = "ASTFIPGenDist: ip_range needs two IPv4 addresses, not {!r}"
            raise Refusal(text.format(ip_range)) from None
        self.first, self.last, self.place = first, last, caller()
        if distribution == "rand":
            note("distribution=\"rand\" has no effect: addresses are used in turn")
        elif distribution != "seq":
            raise Refusal("ASTFIPGenDist: distribution must be \"seq\" or \"rand\"")

    def range(self, prefix):
        """Returns the range as text; in IPv6 behind the 96 bits of `prefix`."""
        if prefix is None:
            return "{}-{}".format(self.first, self.last)
        base = int(prefix) >> 32 << 32
        ends = [ipaddress.IPv6Address(base | int(end)) for end in (self.first, self.last)]
        return "{}-{}".format(*ends)


class ASTFIPGenGlobal:
    """The offset between pairs of ports, of which there is one here."""

    def __init__(self, ip_offset="1.0.0.0"):
        self.ip_offset = ip_offset


class ASTFIPGen:
    """The addresses of clients and servers."""

    def __init__(self, dist_client, dist_server, glob=None):
        self.client = check(dist_client, ASTFIPGenDist, "ASTFIPGen: dist_client")
        self.server = check(dist_server, ASTFIPGenDist, "ASTFIPGen: dist_server")


class ASTFCluster:
    """Has no members in TRex either."""


class ASTFAssociationRule:
    """The port, and the addresses, of a server."""

    def __init__(self, port=80, ip_start=None, ip_end=None, l7_map=None):
        if l7_map is not None:
            raise Refusal("ASTFAssociationRule(l7_map=...) is not supported")
        self.port, self.place = port, caller()
        addresses = [None if it is None else str(it) for it in (ip_start, ip_end)]
        self.first, self.last = addresses


class ASTFAssociation:
    """The rules of a server, of which there must be one here."""

    def __init__(self, rules=None):
        rules = as_list(ASTFAssociationRule() if rules is None else rules)
        if len(rules) != 1:
            raise Refusal("ASTFAssociation: more than one rule is not supported")
        self.rule = check(rules[0], ASTFAssociationRule, "ASTFAssociation: rules")


# Settings of ASTFGlobalInfo that have no effect, with the reason or the way out.
WITHOUT_EFFECT = {
    "scheduler": {
        "rampup_sec": "use --ramp S",
        "accurate": "connections are opened at their times",
    },
    "tcp": {
        "mss": "use --mtu: the MSS is 40 bytes less, over IPv6 60",
        "initwnd": "connections begin with 10 segments",
        "rxbufsize": "windows have 65,535 bytes",
        "txbufsize": "windows have 65,535 bytes",
        "rexmtthresh": "three duplicate acknowledgements count as a loss",
        "do_rfc1323": "there is no window scaling and no timestamp",
        "do_sack": "there is no SACK",
        "keepinit": "a SYN is sent again after 1, 2, 4 and 8 s",
        "keepidle": "there are no keepalives",
        "keepintvl": "there are no keepalives",
        "blackhole": "segments without a connection are dropped and counted",
        "no_delay": "a part of a segment waits while others are on their way",
        "no_delay_counter": "every second segment is acknowledged at once",
    },
    "ip": {"dont_use_inbound_mac": "frames go to the MAC address of the next hop"},
}

# Settings that must have the value that all frames have.
FIXED = {"ip": {"tos": 0, "ttl": 64}}

# Settings with an effect.
KEPT = {"tcp": ["delay_ack_msec"], "ipv6": ["src_msb", "dst_msb", "enable"]}


class Section:
    """One section of settings, such as `tcp`."""

    def __init__(self, name):
        self.__dict__["section"] = name

    def __setattr__(self, name, value):
        section = self.section
        full = "{}.{}".format(section, name)
        if name in WITHOUT_EFFECT.get(section, {}):
            note("{} = {!r} has no effect: {}".format(full, value, WITHOUT_EFFECT[section][name]))
        elif name in FIXED.get(section, {}):
            fixed = FIXED[section][name]
            if value != fixed:
                raise Refusal("{} = {!r} is not supported: it is {}".format(full, value, fixed))
        elif name not in KEPT.get(section, []):
            raise Refusal("{} is not supported".format(full))
        self.__dict__[name] = value


class ASTFGlobalInfo:
    """Settings of one end."""

    def __init__(self):
        for section in ("scheduler", "tcp", "ip", "ipv6"):
            self.__dict__[section] = Section(section)

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        raise RefusedName("{}.{} is not supported".format(type(self).__name__, name))

    def __setattr__(self, name, value):
        raise RefusedName("{}.{} is not supported".format(type(self).__name__, name))


class ASTFGlobalInfoPerTemplate(ASTFGlobalInfo):
    """Settings of one end of a template."""


def settings(name, info):
    """Returns the values of settings that have an effect, by name."""
    if info is None:
        return {}
    check(info, ASTFGlobalInfo, name)
    return {**vars(info.tcp), **vars(info.ipv6)}


class ASTFTCPClientTemplate:
    """The client of a template; its program says whether it is TCP or UDP."""

    def __init__(self, ip_gen, cluster=None, program=None, port=80, cps=1, glob_info=None,
                 limit=None, cont=None):
        self.place = caller()
        self.ip_gen = check(ip_gen, ASTFIPGen, "ASTFTCPClientTemplate: ip_gen")
        self.program = check(program, ASTFProgram, "ASTFTCPClientTemplate: program")
        self.port = check(port, int, "ASTFTCPClientTemplate: port")
        self.cps = check(cps, (int, float), "ASTFTCPClientTemplate: cps")
        self.limit, self.is_continuous = limit or None, bool(cont)
        self.settings = settings("ASTFTCPClientTemplate: glob_info", glob_info)


class ASTFTCPServerTemplate:
    """The server of a template."""

    def __init__(self, program=None, assoc=None, glob_info=None):
        self.place = caller()
        self.program = check(program, ASTFProgram, "ASTFTCPServerTemplate: program")
        if not isinstance(assoc, ASTFAssociation):
            assoc = ASTFAssociation(assoc)
        self.rule = assoc.rule
        self.settings = settings("ASTFTCPServerTemplate: glob_info", glob_info)


class ASTFTemplate:
    """One kind of connection."""

    def __init__(self, client_template=None, server_template=None, tg_name=None):
        self.place = caller()
        self.client = check(client_template, ASTFTCPClientTemplate, "ASTFTemplate")
        self.server = check(server_template, ASTFTCPServerTemplate, "ASTFTemplate")
        self.name = tg_name
        captures = {end.program.capture for end in (self.client, self.server)}
        if len(captures) > 1:
            raise Refusal("ASTFTemplate: both programs must come from the same capture, or none")
        sides = self.client.program.side, self.server.program.side
        if captures != {None} and sides != ("c", "s"):
            raise Refusal("ASTFTemplate: the server's program needs side=\"s\", the client's \"c\"")
        if self.client.program.is_stream != self.server.program.is_stream:
            raise Refusal("ASTFTemplate: one program is TCP, the other UDP (stream=False)")
        if self.client.port != self.server.rule.port:
            text = "ASTFTemplate: the client's port is {}, that of the server's rule {}"
            raise Refusal(text.format(self.client.port, self.server.rule.port))


class ASTFCapInfo:
    """The sessions of a capture."""

    def __init__(self, file=None, cps=None, assoc=None, ip_gen=None, port=None, l7_percent=None,
                 s_glob_info=None, c_glob_info=None, limit=None, tg_name=None, cont=None):
        self.place, self.name = caller(), tg_name
        if l7_percent is not None:
            raise Refusal("ASTFCapInfo(l7_percent=...) is not supported: use cps")
        self.capture = file_beside_profile("ASTFCapInfo: file", file)
        self.cps = check(1 if cps is None else cps, (int, float), "ASTFCapInfo: cps")
        if assoc is not None and not isinstance(assoc, ASTFAssociation):
            assoc = ASTFAssociation(assoc)
        if assoc is not None and port is not None:
            raise Refusal("ASTFCapInfo: assoc and port contradict each other: give one of them")
        self.rule = ASTFAssociationRule(port) if assoc is None else assoc.rule
        self.ip_gen = None if ip_gen is None else check(ip_gen, ASTFIPGen, "ASTFCapInfo: ip_gen")
        self.limit, self.is_continuous = limit or None, bool(cont)
        self.client_settings = settings("ASTFCapInfo: c_glob_info", c_glob_info)
        self.server_settings = settings("ASTFCapInfo: s_glob_info", s_glob_info)


class ASTFProfile:
    """A whole profile."""

    def __init__(self, default_ip_gen, default_c_glob_info=None, default_s_glob_info=None,
                 templates=None, cap_list=None):
        self.place = caller()
        self.ip_gen = check(default_ip_gen, ASTFIPGen, "ASTFProfile: default_ip_gen")
        self.captures = [] if cap_list is None else as_list(cap_list)
        for info in self.captures:
            check(info, ASTFCapInfo, "ASTFProfile: cap_list")
        self.templates = [] if templates is None else as_list(templates)
        for template in self.templates:
            check(template, ASTFTemplate, "ASTFProfile: templates")
        self.client_settings = settings("default_c_glob_info", default_c_glob_info)
        self.server_settings = settings("default_s_glob_info", default_s_glob_info)


def refused_class(name, reason):
    """Makes a class that cannot be used."""
    def refuse(self, *values, **named):
        raise Refusal("{} is not supported: {}".format(name, reason))
    return type(name, (), {"__init__": refuse})


REFUSED = {
    "ASTFClient": "a profile describes traffic, and does not start it",
    "ASTFTCPInfo": "use ASTFGlobalInfo",
    "ASTFTCPOptions": "use ASTFGlobalInfo",
    "ASTFTopology": "there are no clients behind routers",
}
for refused, reason in REFUSED.items():
    globals()[refused] = refused_class(refused, reason)


def __getattr__(name):
    if name.startswith("_"):
        raise AttributeError(name)
    raise RefusedName("{} is not supported".format(name))


# Profiles use the modules that TRex's own module imports without importing them again.
__all__ = ["base64", "hashlib", "inspect", "json", "os", "sys", "traceback"]
__all__ += [name for name in dir() if name.startswith("ASTF") or name in REFUSED]
