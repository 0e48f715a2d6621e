// SPDX-License-Identifier: BSD-3-Clause
//! Implements `--send-on-time`: ports keep packets until they are due.

use super::GenArgs;
use super::trex_cfg::LinkSettings;
use crate::ports::OpenPorts;
use anyhow::anyhow;
use dpdk::{Errno, SendTime};
use generator::{Clock, PortReading, PortTx, SendTimes};

/// Nanoseconds before it is due at which a packet goes to the port. They bridge the gaps between
/// two turns of a sender; pauses of the cpu are longer anyway.
const AHEAD_NS: u64 = 50_000;
/// Most packets that a sender makes in a microsecond. The descriptors of a queue must have room for
/// the packets of the time ahead at this rate.
const PACKETS_PER_US: u64 = 30;

/// Settings of senders that send on time.
pub(super) struct OnTimeSending {
    field: SendTime,
    ahead_ns: u64,
    /// Name of each port, and a reading of its clock when the run was prepared.
    readings: Vec<(String, PortReading)>,
}

impl OnTimeSending {
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
        let field = SendTime::reserve(&open.eal).map_err(|errno| {
            anyhow!("--send-on-time: mbufs have no field for send times: {errno}")
        })?;
        let held_ns = u64::from(link.tuning.tx_descriptors()) * 1000 / PACKETS_PER_US;
        let readings = readings.collect::<anyhow::Result<_>>()?;
        Ok(Some(Self { field, ahead_ns: AHEAD_NS.min(held_ns), readings }))
    }

    /// Makes `tx`, of port number `port`, send on time by the clock of the run.
    pub(super) fn set_up(&self, tx: PortTx, port: usize, clock: Clock) -> anyhow::Result<PortTx> {
        let (name, reading) = &self.readings[port];
        let times =
            SendTimes { field: self.field, clock, reading: *reading, ahead_ns: self.ahead_ns };
        tx.on_time(times).map_err(|errno| cannot_read(name, &errno))
    }
}

fn cannot_read(port: &str, errno: &Errno) -> anyhow::Error {
    anyhow!("--send-on-time: the clock of port {port} cannot be read: {errno}")
}
