# SPDX-License-Identifier: BSD-3-Clause
# A request and a response over TCP, in the style of TRex's examples: the server takes its time, and
# lets the client close first. The length of the response is a keyword argument.
from trex_astf_lib.api import *

REQUEST = b"GET / HTTP/1.1\r\nHost: 48.0.0.1\r\n\r\n"
HEAD = "HTTP/1.1 200 OK\r\n\r\n"


class Http():
    def create(self, size):
        response = HEAD + "*" * size

        prog_c = ASTFProgram()
        prog_c.connect();
        prog_c.send(REQUEST)
        prog_c.recv(len(response))
        prog_c.delay_rand(10, 2500.4);

        prog_s = ASTFProgram()
        prog_s.accept()
        prog_s.recv(len(REQUEST))
        prog_s.delay(500000); # 500 ms
        prog_s.set_send_blocking(False)
        prog_s.send(response)
        prog_s.wait_for_peer_close()

        ip_gen_c = ASTFIPGenDist(ip_range=["16.0.0.0", "16.0.0.255"], distribution="seq")
        ip_gen_s = ASTFIPGenDist(ip_range=["48.0.0.0", "48.0.255.255"], distribution="rand")
        ip_gen = ASTFIPGen(glob=ASTFIPGenGlobal(ip_offset="1.0.0.0"),
                           dist_client=ip_gen_c,
                           dist_server=ip_gen_s)

        info = ASTFGlobalInfo()
        info.tcp.mss = 1400
        info.tcp.delay_ack_msec = 20
        info.scheduler.rampup_sec = 5

        temp_c = ASTFTCPClientTemplate(program=prog_c, ip_gen=ip_gen)
        temp_s = ASTFTCPServerTemplate(program=prog_s)  # port 80
        template = ASTFTemplate(client_template=temp_c, server_template=temp_s)
        return ASTFProfile(default_ip_gen=ip_gen, templates=template,
                           default_c_glob_info=info, default_s_glob_info=info)

    def get_profile(self, **kwargs):
        return self.create(kwargs.get("size", 1))


def register():
    return Http()
