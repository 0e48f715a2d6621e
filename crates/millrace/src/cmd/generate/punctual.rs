// SPDX-License-Identifier: BSD-3-Clause
//! `--send-on-time`: ports that keep packets until they are due.

use super::GenArgs;
use super::trex_cfg::LinkSettings;
use crate::ports::OpenPorts;
use anyhow::anyhow;
use dpdk::{Errno, SendTime};
use generator::{Clock, PortReading, PortTx, SendTimes};

/// Time by which packets go to the port before they are due. It bridges the gaps between two turns
/// of a sender; pauses of the cpu are longer anyway.
const AHEAD_NS: u64 = 50_000;
/// A sender makes no more packets in a microsecond: so many of the time ahead must find room among
/// the descriptors of the queue.
const PACKETS_PER_US: u64 = 30;

/// What the senders of a run need to send on time.
pub(super) struct Punctual {
    field: SendTime,
    ahead_ns: u64,
    /// Of each port, when the run was prepared.
    readings: Vec<(String, PortReading)>,
}

impl Punctual {
    /// Reads the clocks of the ports; senders read them again. `None` without `--send-on-time`.
    pub(super) fn begin(
        (args, link): (&GenArgs, &LinkSettings),
        open: &OpenPorts,
    ) -> anyhow::Result<Option<Self>> {
        if !args.send_on_time {
            return Ok(None);
        }
        let readings = open.ports.iter().map(|port| {
            let name = port.info().devargs.clone();
            let reading = PortReading::of(port);
            let reading = reading.map_err(|errno| cannot_read(&name, &errno))?;
            Ok((name, reading))
        });
        let field = SendTime::reserve(&open.eal)
            .map_err(|errno| anyhow!("--send-on-time: no field for times: {errno}"))?;
        let held_ns = u64::from(link.tuning.tx_descriptors()) * 1000 / PACKETS_PER_US;
        let readings = readings.collect::<anyhow::Result<_>>()?;
        Ok(Some(Self { field, ahead_ns: AHEAD_NS.min(held_ns), readings }))
    }

    /// Lets a sender at port number `port`, whose run has this clock, send on time.
    pub(super) fn equip(&self, tx: PortTx, port: usize, clock: Clock) -> anyhow::Result<PortTx> {
        let (name, reading) = &self.readings[port];
        let times =
            SendTimes { field: self.field, clock, reading: *reading, ahead_ns: self.ahead_ns };
        tx.on_time(times).map_err(|errno| cannot_read(name, &errno))
    }
}

fn cannot_read(port: &str, errno: &Errno) -> anyhow::Error {
    anyhow!("--send-on-time: the clock of port {port} cannot be read: {errno}")
}
