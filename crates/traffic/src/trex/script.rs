// SPDX-License-Identifier: BSD-3-Clause
//! Prepares the frames of a flow, and the gaps between them, from a capture.

use super::capture::Capture;
use super::error::CaptureProblem;
use super::frame::Frame;
use super::packet::{Packet, Transport};
use super::profile::{Settings, Template, Timing};

/// Maximum number of frames of a capture, as in TRex.
const MAX_FRAMES: usize = 65535;

/// A frame of a flow.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// Nanoseconds since the frame before it in the flow; 0 for the first.
    pub(super) gap_ns: u64,
    pub(super) frame: Frame,
}

/// All frames of a flow, at least one.
#[derive(Clone, Debug)]
pub(super) struct Script {
    pub(super) steps: Vec<Step>,
    pub(super) is_tcp: bool,
    /// True if flows get client ports of their own.
    pub(super) varies_port: bool,
}

impl Script {
    /// Prepares `capture` for `template`.
    ///
    /// # Errors
    /// Returns the number of a frame that cannot be replayed, from 1, and the reason.
    pub(super) fn new(
        capture: &Capture,
        template: &Template,
        settings: &Settings,
    ) -> Result<Self, (usize, CaptureProblem)> {
        let captured = &capture.frames;
        if captured.len() > MAX_FRAMES {
            return Err((MAX_FRAMES + 1, CaptureProblem::TooMany));
        }
        let first = captured.first().ok_or((1, CaptureProblem::Empty))?;
        let first = Packet::new(&first.bytes).map_err(|problem| (1, problem))?;
        let mut steps: Vec<Step> = Vec::with_capacity(captured.len());
        let mut last_ns = 0;
        for (index, it) in captured.iter().enumerate() {
            let at = |problem| (index + 1, problem);
            let packet = Packet::new(&it.bytes).map_err(at)?;
            let keeps_port =
                template.keeps_src_port || is_side_flow(&first, &packet, template).map_err(at)?;
            let is_from_client = is_from_first(&first, &packet) != template.starts_at_server;
            let frame = Frame::new(&packet, is_from_client, keeps_port, settings).map_err(at)?;
            let turns = steps.last().is_some_and(|it| it.frame.is_from_client != is_from_client);
            let captured_gap = it.at_ns.saturating_sub(last_ns);
            last_ns = it.at_ns;
            let gap_ns = match (index, template.timing) {
                (0, _) => 0,
                (_, Timing::Capture) => match settings.shortest_gap {
                    Some((least, instead)) if captured_gap < least => instead,
                    _ => captured_gap,
                },
                (_, Timing::Fixed { rtt_ns, .. }) if turns => rtt_ns,
                (_, Timing::Fixed { ipg_ns, .. }) => ipg_ns,
            };
            steps.push(Step { gap_ns, frame });
        }
        let varies_port = !template.keeps_src_port && first.transport != Transport::Icmp;
        Ok(Self { steps, is_tcp: first.transport == Transport::Tcp, varies_port })
    }

    /// Returns the time from the first frame to the last, in nanoseconds.
    pub(super) fn duration_ns(&self) -> u64 {
        self.steps.iter().fold(0, |sum, step| sum.saturating_add(step.gap_ns))
    }
}

/// True if `packet` belongs to an additional flow.
///
/// # Errors
/// The template does not permit additional flows, or the flow has no host in common with the first.
fn is_side_flow(
    first: &Packet<'_>,
    packet: &Packet<'_>,
    template: &Template,
) -> Result<bool, CaptureProblem> {
    if first.is_of_flow(packet) {
        return Ok(false);
    }
    match template.has_side_flows {
        true if first.shares_host_with(packet) => Ok(true),
        true => Err(CaptureProblem::OtherHosts),
        false => Err(CaptureProblem::SecondFlow),
    }
}

/// True if `packet` comes from the sender of the first frame.
///
/// In an additional flow, a packet from a third host to the receiver of the first frame counts as
/// one from the sender.
fn is_from_first(first: &Packet<'_>, packet: &Packet<'_>) -> bool {
    match first.is_of_flow(packet) {
        true => packet.src == first.src,
        false => packet.src.0 == first.src.0 || packet.dst.0 == first.dst.0,
    }
}
