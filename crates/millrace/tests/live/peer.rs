// SPDX-License-Identifier: BSD-3-Clause
//! Runs `dpdk-testpmd`, another DPDK process, by its prompt. Its ports are the peers of two memifs,
//! or other ports.

use crate::new_scratch;
use std::fs::File;
use std::io::Write;
use std::process::Stdio;
use testkit::process::{Process, mortal, wait_until};
use testkit::scratch::Scratch;

/// A running testpmd.
pub(crate) struct Testpmd {
    process: Process,
    scratch: Scratch,
    prefix: String,
}

/// Packets of one port of testpmd.
#[derive(Debug, PartialEq)]
pub(crate) struct PortCounts {
    pub(crate) received: u64,
    pub(crate) sent: u64,
}

impl Testpmd {
    /// Starts testpmd with two memifs, ids 0 and 1 of `socket`, and waits for its prompt.
    pub(crate) fn start(socket: &str) -> Self {
        let memif = |id| format!("--vdev=net_memif{id},role=client,id={id},{}", at(socket));
        Self::with(&[memif(0), memif(1)], &[])
    }

    /// Starts testpmd with these arguments for EAL and for testpmd, and waits for its prompt.
    pub(crate) fn with(eal: &[String], own: &[&str]) -> Self {
        let scratch = new_scratch("testpmd");
        let prefix = scratch.folder().file_name().expect("a name").to_string_lossy().into_owned();
        // stdbuf: testpmd would write to a file only when its buffer is full.
        let mut command = mortal("stdbuf");
        command.args(["--output=L", "dpdk-testpmd", &format!("--lcores=(0,1)@{}", first_cpu())]);
        command.args(["--no-huge", "-m128", "--no-pci", "--no-shconf", "--no-telemetry"]);
        command.arg(format!("--file-prefix={prefix}")).args(eal);
        command.args(["--", "--interactive", "--no-mlockall", "--total-num-mbufs=8192"]).args(own);
        let out = File::create(scratch.path("out")).unwrap();
        command.stdin(Stdio::piped()).stderr(out.try_clone().unwrap()).stdout(out);
        let process = Process::spawn(&mut command);
        let peer = Self { process, scratch, prefix };
        wait_until("the prompt of testpmd", || peer.output().contains("testpmd> "));
        peer
    }

    /// Types a command and waits until testpmd prints `answer` after it.
    pub(crate) fn enter(&mut self, command: &str, answer: &str) {
        let printed = self.output().len();
        let stdin = self.process.child().stdin.as_mut().expect("its prompt is ours");
        writeln!(stdin, "{command}").unwrap();
        wait_until(command, || self.output()[printed..].contains(answer));
    }

    /// Returns the counters of both ports.
    pub(crate) fn counts(&mut self) -> [PortCounts; 2] {
        let printed = self.output().len();
        self.enter("show port stats all", "for port 1 ");
        wait_until("both statistics", || self.output()[printed..].matches("Tx-pps").count() == 2);
        let text = self.output()[printed..].to_owned();
        let mut ports = text.split("NIC statistics for port").skip(1).map(|text| {
            let counter = |name: &str| {
                let (_, rest) = text.split_once(name).expect("testpmd names its counters");
                rest.split_whitespace().next().and_then(|n| n.parse().ok()).expect("a counter")
            };
            PortCounts { received: counter("RX-packets:"), sent: counter("TX-packets:") }
        });
        [(); 2].map(|()| ports.next().expect("two ports"))
    }

    /// Returns the output so far.
    pub(crate) fn output(&self) -> String {
        self.scratch.read("out")
    }
}

impl Drop for Testpmd {
    /// testpmd is killed, so it does not remove its runtime directory.
    fn drop(&mut self) {
        let _ = self.process.child().kill();
        let _ = self.process.child().wait();
        remove_runtime_dir(&self.prefix);
    }
}

/// Removes the runtime directory of a killed DPDK process with this `--file-prefix`.
pub(crate) fn remove_runtime_dir(prefix: &str) {
    let user = std::env::var("XDG_RUNTIME_DIR").unwrap_or_else(|_| "/tmp".to_owned());
    for folder in ["/var/run", &user] {
        let _ = std::fs::remove_dir_all(format!("{folder}/dpdk/{prefix}"));
    }
}

/// Returns the devargs of a memif at this socket.
pub(crate) fn at(socket: &str) -> String {
    format!("socket={socket},socket-abstract=no")
}

/// Returns the first cpu that this process may use. A bump on two cpus uses the last one.
pub(crate) fn first_cpu() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let first = list.trim().split([',', '-']).next().unwrap();
    first.parse().expect("the kernel lists numbers")
}
