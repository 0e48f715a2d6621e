# SPDX-License-Identifier: BSD-3-Clause
# Loops of TCP and UDP programs. argparse reads the tunables; `os` comes from TRex's module.
from trex.astf.api import *
import argparse


class Loops():
    def template(self, ip_gen, client, server, port):
        return ASTFTemplate(
            client_template=ASTFTCPClientTemplate(program=client, ip_gen=ip_gen, port=port),
            server_template=ASTFTCPServerTemplate(program=server,
                                                  assoc=ASTFAssociationRule(port)))

    def tcp(self, loop):
        client = ASTFProgram()
        client.set_var("unused", 3)
        client.set_var("i", loop)
        client.set_label("outer")
        client.send("request")
        client.set_var("j", 4)
        client.set_label("inner")
        client.recv(100, True)
        client.jmp_nz("j", "inner")
        client.jmp_nz("i", "outer")
        client.reset()
        server = ASTFProgram()
        server.set_var("i", loop)
        server.set_label("a:")
        server.recv(7)
        server.send_chunk("*" * 400, 150, 20)
        server.jmp_nz("i", "a:")
        return client, server

    def udp(self, loop):
        client, server = ASTFProgram(stream=False), ASTFProgram(stream=False)
        client.set_var("i", 70000)
        client.set_label("a:")
        client.send_msg(b"ping")
        client.recv_msg(1, True)
        client.jmp_nz("i", "a:")
        for _ in range(70000 // 2):
            for _ in range(2):
                server.recv_msg(1)
                server.send_msg("pong!")
        return client, server

    def get_profile(self, tunables, **kwargs):
        parser = argparse.ArgumentParser(description=os.path.basename(__file__))
        parser.add_argument("--loop", type=int, default=10)
        parser.add_argument("--with-udp", action="store_true")
        args = parser.parse_args(tunables)
        ip_gen = ASTFIPGen(
            dist_client=ASTFIPGenDist(ip_range=["16.0.0.0", "16.0.0.255"], distribution="seq"),
            dist_server=ASTFIPGenDist(ip_range=["48.0.0.0", "48.0.0.255"], distribution="seq"))
        templates = [self.template(ip_gen, *self.tcp(args.loop), 80)]
        if args.with_udp:
            templates.append(self.template(ip_gen, *self.udp(args.loop), 81))
        return ASTFProfile(default_ip_gen=ip_gen, templates=templates)


def register():
    return Loops()
