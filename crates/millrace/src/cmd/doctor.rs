// SPDX-License-Identifier: BSD-3-Clause
//! `millrace doctor`: prints what the host has, and advice.

use crate::twin_driver;
use doctor::host::Host;
use doctor::{Finding, Status, diagnose, fix_script, software_nic};
use dpdk::linux::Offload;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Check whether this host is ready, and advise
///
/// Checks cpus, memory, hugepages, kernel, DPDK, privileges, boot loader, tuned, every NIC on the
/// PCI bus and on VMBus, and interfaces, and prints advice for each finding. Changes nothing.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Root directory of the host, such as a folder with copies of another host's /proc and /sys
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
    /// Print a shell script that does what the findings advise, and keeps it across a reboot
    #[arg(long, visible_alias = "script", conflicts_with = "json")]
    fix_script: bool,
}

const EXAMPLES: &str = "\
Examples:
  millrace doctor
      Check this host.
  millrace doctor --fix-script > fix.sh
      Write a script for this host. Read it, then run it as root.
  millrace doctor --json | jq '.findings[] | select(.status == \"warn\")'
      Findings that cost speed, as JSON.
  millrace doctor --root copy
      Check another host, whose /proc and /sys are copied to this folder.

Exit status: 0 good, or the script was printed; 1 a finding prevents every run; 2 wrong use.";

pub(crate) fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(args.root.is_dir(), "{} is no directory", args.root.display());
    let mut host = Host::read(&args.root);
    let mut out = std::io::stdout().lock();
    if args.fix_script {
        write!(out, "{}", fix_script(&host))?;
        return Ok(ExitCode::SUCCESS);
    }
    let is_this_host = args.root == Path::new("/");
    if is_this_host {
        host.measure(|interface| dpdk::linux::offload(interface, Offload::Gro).ok());
    }
    let mut findings = diagnose(&host);
    if is_this_host {
        let driver = twin_driver::find();
        let fault = driver.as_deref().and_then(|driver| twin_driver::check_place(driver).err());
        let place = software_nic(driver.as_deref(), fault.map(|fault| fault.to_string()));
        // After what every run needs: kernel and DPDK.
        findings.insert(findings.len().min(2), place);
    }
    if args.json {
        serde_json::to_writer_pretty(&mut out, &serde_json::json!({ "findings": findings }))?;
        writeln!(out)?;
    } else {
        print(&mut out, &findings)?;
    }
    let fails = findings.iter().any(|finding| finding.status == Status::Fail);
    Ok(if fails { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn print(out: &mut impl Write, findings: &[Finding]) -> std::io::Result<()> {
    let width = findings.iter().map(|finding| finding.topic.len()).max().unwrap_or(0);
    for Finding { topic, status, found, advice } in findings {
        let mark = match status {
            Status::Ok => "ok  ",
            Status::Note => "note",
            Status::Unknown => "?   ",
            Status::Warn => "WARN",
            Status::Fail => "FAIL",
        };
        writeln!(out, "{mark}  {topic:width$}  {found}")?;
        if let Some(advice) = advice {
            writeln!(out, "      {:width$}  -> {advice}", "")?;
        }
    }
    let count = |status| findings.iter().filter(|finding| finding.status == status).count();
    let [ok, note, unknown, warn, fail] =
        [Status::Ok, Status::Note, Status::Unknown, Status::Warn, Status::Fail].map(count);
    let verdict = match (fail, unknown) {
        (0, 0) => "runs here",
        (0, _) => "runs here, as far as could be checked",
        _ => "does not run here",
    };
    let counts = format!("ok {ok}, note {note}, unknown {unknown}, warn {warn}, fail {fail}");
    writeln!(out, "\nmillrace {verdict} ({counts})")
}
