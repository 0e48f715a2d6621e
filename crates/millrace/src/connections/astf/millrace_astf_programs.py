# SPDX-License-Identifier: BSD-3-Clause
# Makes a profile of Millrace from the objects of a TRex profile.
import ipaddress
import json

from millrace_astf_api import Refusal, note

# Most rounds of a loop, and levels of loops inside each other.
ROUNDS_MAX = 65535
LEVELS_MAX = 2
# Longest body, in actions, that is looked for when a program repeats itself.
FOLD_MAX = 8
# Most steps of a UDP program that are followed to add up its datagrams.
STEPS_MAX = 10000000
# Most connections per second.
CPS_MAX = 1e9
LAST = {"reset": "reset", "wait_for_peer_close": "wait_for_close", "close_msg": "close"}


class Loop:
    """A number of rounds of a body: a list of commands and loops."""

    def __init__(self, count, body, place):
        self.count, self.body, self.place = count, body, place


class Block:
    """The commands behind a label, up to the jump back to it."""

    def __init__(self, label):
        self.label, self.body, self.values = label, [], {}


def find_loops(program):
    """Returns the commands of a program, with a Loop for each label that is jumped back to."""
    blocks, labels = [Block(None)], set()
    for command in program.commands:
        verb, values, place = command
        if verb == "set_var":
            blocks[-1].values[values[0]] = values[1]
        elif verb == "set_label":
            if values[0] in labels:
                raise Refusal("set_label: {!r} was set before".format(values[0]), place)
            labels.add(values[0])
            blocks.append(Block(values[0]))
        elif verb == "jmp_nz":
            end_loop(blocks, values, place)
        else:
            blocks[-1].body.append(command)
    while len(blocks) > 1:
        drop_label(blocks)
    return blocks[0].body


def drop_label(blocks):
    """Removes a label that nothing jumps back to."""
    block = blocks.pop()
    blocks[-1].body += block.body
    blocks[-1].values.update(block.values)


def end_loop(blocks, values, place):
    variable, label = values
    if all(block.label != label for block in blocks):
        text = "jmp_nz: there is no loop from label {!r} to here"
        raise Refusal(text.format(label), place)
    while blocks[-1].label != label:
        drop_label(blocks)
    block, outer = blocks.pop(), blocks[-1]
    if variable in block.values:
        raise Refusal("jmp_nz: {!r} is set inside its own loop".format(variable), place)
    if variable not in outer.values:
        text = "jmp_nz: {!r} is not set just before the loop: only loops that count are supported"
        raise Refusal(text.format(variable), place)
    count = outer.values.pop(variable)
    if count < 1:
        text = "jmp_nz: {!r} begins at {}: must be at least 1"
        raise Refusal(text.format(variable, count), place)
    outer.values.update(block.values)
    if block.body:
        outer.body.append(Loop(count, block.body, place))


def walk(body):
    """Yields the commands of a body in the order in which they are done."""
    for item in body:
        if isinstance(item, Loop):
            for _ in range(item.count):
                yield from walk(item.body)
        else:
            yield item


def limited(commands):
    """Yields commands, and refuses a program of too many."""
    for steps, command in enumerate(commands):
        if steps > STEPS_MAX:
            raise Refusal("the program has more than {} steps".format(STEPS_MAX), command[2])
        yield command


def count_datagrams(body, peer):
    """Returns the bytes that each recv_msg() waits for, by the identity of its command."""
    sent = (len(values[0]) for verb, values, _ in limited(walk(peer)) if verb == "send_msg")
    lengths = {}
    for command in limited(walk(body)):
        verb, values, place = command
        if verb != "recv_msg":
            continue
        length = 0
        for _ in range(values[0]):
            one = next(sent, None)
            if one is None:
                raise Refusal("recv_msg: the other end sends fewer messages", place)
            length += one
        if lengths.setdefault(id(command), length) != length:
            text = "recv_msg: rounds of the loop receive messages of different lengths"
            raise Refusal(text + "; only equal ones are supported", place)
    return lengths


def actions_of(body, lengths, level=0):
    """Returns the actions of a body, in the form of Millrace's profiles."""
    actions = []
    for number, item in enumerate(body):
        if isinstance(item, Loop):
            actions += repeat(item, actions_of(item.body, lengths, level + 1), level)
            continue
        verb, values, place = item
        if verb == "connect" and (number or level):
            raise Refusal("connect() must be the first command", place)
        if verb == "accept" and (number or level):
            raise Refusal("accept() must be the first command", place)
        if verb in LAST:
            if level or number + 1 < len(body):
                raise Refusal("{}() must be the last command".format(verb), place)
            actions.append(LAST[verb])
        elif verb in ("send", "send_msg"):
            actions.append(send(values[0]))
        elif verb == "recv":
            if level and not values[1]:
                note("recv() in a loop waits in each round; in TRex that takes clear=True", place)
            actions += [{"receive": values[0]}] if values[0] else []
        elif verb == "recv_msg":
            length = lengths.get(id(item), 0)
            actions += [{"receive": length}] if length else []
        elif verb == "delay":
            actions.append({"delay_us": values[0] if values[0] == values[1] else list(values)})
    return actions


def send(data):
    try:
        return {"send": data.decode("ascii")}
    except UnicodeDecodeError:
        return {"send_hex": data.hex()}


def repeat(loop, body, level):
    if not body:
        return []
    depth = depth_of(body)
    whole, rest = divmod(loop.count, ROUNDS_MAX)
    is_long = loop.count > ROUNDS_MAX
    if level + depth + (2 if is_long else 1) > LEVELS_MAX:
        text = "jmp_nz: at most {} loops may be inside each other, each of at most {} rounds"
        raise Refusal(text.format(LEVELS_MAX, ROUNDS_MAX), loop.place)
    if not is_long:
        return [{"repeat": loop.count, "do": body}]
    if whole > ROUNDS_MAX:
        raise Refusal("jmp_nz: {} rounds are too many".format(loop.count), loop.place)
    actions = [{"repeat": whole, "do": [{"repeat": ROUNDS_MAX, "do": body}]}]
    return actions + ([{"repeat": rest, "do": body}] if rest else [])


def depth_of(actions):
    loops = [it["do"] for it in actions if isinstance(it, dict) and "do" in it]
    return max((1 + depth_of(body) for body in loops), default=0)


def fold(actions):
    """Writes actions that repeat themselves as a loop: profiles often build programs in a loop of
    Python. A loop takes less memory, and its data is found faster."""
    keys = [json.dumps(action) for action in actions]
    folded, at = [], 0
    while at < len(actions):
        best, rounds_of_best = 1, 1
        for period in range(1, FOLD_MAX + 1):
            body, rounds = keys[at:at + period], 1
            while rounds < ROUNDS_MAX and \
                    keys[at + rounds * period:at + (rounds + 1) * period] == body:
                rounds += 1
            if rounds > 1 and rounds * period > rounds_of_best * best:
                best, rounds_of_best = period, rounds
        body = actions[at:at + best]
        if rounds_of_best > 1 and depth_of(body) < LEVELS_MAX:
            folded.append({"repeat": rounds_of_best, "do": body})
            at += rounds_of_best * best
        else:
            folded.append(actions[at])
            at += 1
    return folded


def check_numbers(name, of):
    """Refuses a rate or a limit that Millrace's profiles cannot have."""
    if not 0 < of.cps <= CPS_MAX:
        text = "{}: cps must be more than 0 and at most {:.0e}"
        raise Refusal(text.format(name, CPS_MAX), of.place)
    if of.limit is not None and not (isinstance(of.limit, int) and 0 < of.limit < 2 ** 63):
        raise Refusal("{}: limit must be a number from 1".format(name), of.place)


def check_port(name, port, place):
    if not (isinstance(port, int) and 0 < port < 65536):
        raise Refusal("{}: port must be a number from 1 to 65535".format(name), place)


def template_of(template):
    client, server = template.client, template.server
    check_numbers("ASTFTCPClientTemplate", client)
    check_port("ASTFTCPClientTemplate", client.port, client.place)
    text = {
        "name": None if template.name is None else str(template.name),
        "port": client.port,
        "cps": client.cps,
        "limit": client.limit,
        "continuous": client.is_continuous,
    }
    if client.program.capture is not None:
        text.update(capture=client.program.capture, pauses="udp")
        return {key: value for key, value in text.items() if value is not None}
    bodies = [find_loops(end.program) for end in (client, server)]
    ends = []
    for end, body, peer in zip((client, server), bodies, reversed(bodies)):
        is_udp = not end.program.is_stream
        lengths = count_datagrams(body, peer) if is_udp else {}
        ends.append(fold(actions_of(body, lengths)))
    text["proto"] = "tcp" if client.program.is_stream else "udp"
    text["client"], text["server"] = ends
    return {key: value for key, value in text.items() if value is not None}


def template_of_capture(info):
    """Returns the template of the sessions of a capture. TRex keeps the pauses of UDP only."""
    check_numbers("ASTFCapInfo", info)
    if info.rule.port is not None:
        check_port("ASTFCapInfo", info.rule.port, info.place)
    text = {
        "name": None if info.name is None else str(info.name),
        "port": info.rule.port,
        "cps": info.cps,
        "limit": info.limit,
        "continuous": info.is_continuous,
        "capture": info.capture,
        "pauses": "udp",
    }
    return {key: value for key, value in text.items() if value is not None}


def addresses_of(profile, settings, ip_gen, rule, place):
    """Returns the ranges of a template's clients and servers, as text."""
    given = {**profile.client_settings, **settings}
    prefixes = [None, None]
    if given.get("enable"):
        try:
            prefixes = [ipaddress.IPv6Address(given.get(it, "")) for it in ("src_msb", "dst_msb")]
        except ValueError:
            text = "ipv6: src_msb and dst_msb need IPv6 addresses"
            raise Refusal(text, place) from None
    of_rule = rule.first, rule.last
    of_servers = str(ip_gen.server.first), str(ip_gen.server.last)
    if of_rule not in ((None, None), of_servers):
        text = "ASTFAssociationRule: ip_start and ip_end must be those of the servers, or left out"
        raise Refusal(text, rule.place)
    return ip_gen.client.range(prefixes[0]), ip_gen.server.range(prefixes[1])


def timeouts_of(profile):
    ends = [(it.client.settings, it.server.settings) for it in profile.templates]
    ends += [(it.client_settings, it.server_settings) for it in profile.captures]
    given = set()
    for client, server in ends:
        for settings in ({**profile.client_settings, **client},
                         {**profile.server_settings, **server}):
            given.add(settings.get("delay_ack_msec"))
    given.discard(None)
    if len(given) > 1:
        raise Refusal("tcp.delay_ack_msec: all ends must have the same", profile.place)
    return {"delayed_ack_ms": given.pop()} if given else {}


def profile_of(profile):
    """Returns the profile, as the JSON form of Millrace's profiles has it."""
    templates, ranges = [], None
    for template in profile.templates:
        client, rule = template.client, template.server.rule
        own = addresses_of(profile, client.settings, client.ip_gen, rule, client.place)
        templates.append((template_of(template), own, client.place))
    for info in profile.captures:
        ip_gen = info.ip_gen or profile.ip_gen
        own = addresses_of(profile, info.client_settings, ip_gen, info.rule, info.place)
        templates.append((template_of_capture(info), own, info.place))
    if not templates:
        raise Refusal("ASTFProfile: there are no templates", profile.place)
    ranges = templates[0][1]
    for _, own, place in templates:
        if own != ranges:
            text = "ASTFIPGen: all templates must have the same addresses; {} and {} differ"
            differing = next(pair for pair in zip(own, ranges) if pair[0] != pair[1])
            raise Refusal(text.format(*differing), place)
    clients, servers = ranges
    return {"clients": clients, "servers": servers, "timeouts": timeouts_of(profile),
            "template": [template for template, _, _ in templates]}
