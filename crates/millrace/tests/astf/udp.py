# SPDX-License-Identifier: BSD-3-Clause
# Messages over UDP of different lengths, IPv6 addresses, and a program that is closed by hand.
from trex.astf.trex_astf_profile import (
    ASTFAssociation, ASTFAssociationRule, ASTFGlobalInfo, ASTFIPGen, ASTFIPGenDist, ASTFProfile,
    ASTFProgram, ASTFTCPClientTemplate, ASTFTCPServerTemplate, ASTFTemplate,
)


class Udp():
    def get_profile(self):
        prog_c = ASTFProgram(stream=False)
        prog_c.send_msg("query")
        prog_c.recv_msg(2)
        prog_c.send_msg(b"\x00\xff")
        prog_c.close_msg()

        prog_s = ASTFProgram(stream=False)
        prog_s.set_keepalive_msg(5000)
        prog_s.recv_msg(1)
        prog_s.send_msg("a part")
        prog_s.send_msg("", size=100, fill="ab")
        prog_s.recv_msg(1)

        ip_gen = ASTFIPGen(dist_client=ASTFIPGenDist(["16.0.0.1", "16.0.0.9"]),
                           dist_server=ASTFIPGenDist(["48.0.0.1", "48.0.0.1"]))
        info = ASTFGlobalInfo()
        info.ipv6.src_msb = "2001:2::"
        info.ipv6.dst_msb = "2001:2:1::"
        info.ipv6.enable = 1
        rule = ASTFAssociationRule(port=53, ip_start="48.0.0.1", ip_end="48.0.0.1")
        template = ASTFTemplate(
            ASTFTCPClientTemplate(ip_gen, program=prog_c, port=53, cps=2.5, limit=10),
            ASTFTCPServerTemplate(prog_s, ASTFAssociation(rule)),
            tg_name="dns")
        return ASTFProfile(ip_gen, templates=[template], default_c_glob_info=info)


def register():
    return Udp()
