# SPDX-License-Identifier: BSD-3-Clause
# The connections of the article about connection tracking in Open vSwitch 3.0, as a profile for
# TRex and for Millrace: TCP, and a share of UDP. Each message is answered by one of the same size.
#
#   millrace gen eth1,eth2 --stateful profiles/article.py --tunable num-messages=500
import argparse

from trex.astf.api import *


class Article:
    def get_profile(self, tunables, **kwargs):
        parser = argparse.ArgumentParser(description="connections of requests and answers")
        parser.add_argument("--num-messages", type=int, default=1, help="requests of a connection")
        parser.add_argument("--message-size", type=int, default=20, help="bytes of a message")
        parser.add_argument("--server-wait", type=int, default=0, help="ms before an answer")
        parser.add_argument("--udp-percent", type=float, default=1, help="share of UDP")
        parser.add_argument("--max-flows", type=int, help="most connections at a time")
        options = parser.parse_args(tunables)

        addresses = ASTFIPGen(
            glob=ASTFIPGenGlobal(ip_offset="1.0.0.0"),
            dist_client=ASTFIPGenDist(ip_range=["16.0.0.0", "16.0.255.255"], distribution="seq"),
            dist_server=ASTFIPGenDist(ip_range=["48.0.0.0", "48.0.0.255"], distribution="seq"),
        )
        shares = [(True, 8080, 100 - options.udp_percent), (False, 5353, options.udp_percent)]
        templates = [
            self.template(addresses, options, is_tcp, port, percent)
            for is_tcp, port, percent in shares
            if percent > 0
        ]
        return ASTFProfile(default_ip_gen=addresses, templates=templates)

    def template(self, addresses, options, is_tcp, port, percent):
        client, server = ASTFProgram(stream=is_tcp), ASTFProgram(stream=is_tcp)
        for _ in range(options.num_messages):
            self.send(client, is_tcp, options.message_size * b"x")
            self.receive(server, is_tcp, options.message_size)
            if options.server_wait > 0:
                server.delay(options.server_wait * 1000)
            self.send(server, is_tcp, options.message_size * b"y")
            self.receive(client, is_tcp, options.message_size)
        limit = None
        if options.max_flows:
            limit = max(1, int(options.max_flows * percent / 100))
        return ASTFTemplate(
            client_template=ASTFTCPClientTemplate(
                program=client, ip_gen=addresses, port=port, cps=percent, limit=limit, cont=True
            ),
            server_template=ASTFTCPServerTemplate(
                program=server, assoc=ASTFAssociationRule(port=port)
            ),
            tg_name="tcp" if is_tcp else "udp",
        )

    def send(self, program, is_tcp, message):
        (program.send if is_tcp else program.send_msg)(message)

    def receive(self, program, is_tcp, size):
        if is_tcp:
            program.recv(size)
        else:
            program.recv_msg(1)


def register():
    return Article()
