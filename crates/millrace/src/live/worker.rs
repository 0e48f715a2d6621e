// SPDX-License-Identifier: BSD-3-Clause
//! Runs the loop of one worker: forwards packets between its queues of both ports, through its
//! engine.
//!
//! While it forwards, it takes no lock, allocates nothing, makes no system call and logs nothing.
//! Other threads read its counters from [`PublishedCounters`] and its flow records from a ring. If
//! that ring is full, ended connections stay longer in the table, but no packet waits.

pub(crate) mod handoff;
pub(crate) mod held_packets;
pub(crate) mod poll_gaps;
pub(crate) mod rejects;
pub(crate) mod start_gate;

use crate::live::checkpointing::{CheckpointSource, CheckpointStatus};
use crate::live::clock::Clock;
use crate::live::commands::queue::CommandQueue;
use crate::live::counters::account::{Account, SIDES, WorkerReport};
use crate::live::counters::published::{PublishedCounters, Snapshot};
use crate::live::offload::RuleRequests;
use crate::live::ports::frame_limits::FrameLimits;
use crate::live::ports::queue_lease::{LeaseCommand, QueueLease, QueuePair};
use crate::live::worker::handoff::HandoffRings;
use crate::live::worker::held_packets::HeldPackets;
use crate::live::worker::poll_gaps::PollGaps;
use crate::live::worker::rejects::Rejecter;
use crate::live::worker::start_gate::StartGate;
use checkpoint::Resume;
use dpdk::{Burst, RxQueue, TxQueue, tsc};
use engine::{Anomaly, BURST_MAX, Engine, FlowRecord, Verdict};
use rtrb::Producer;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use wire::Packet;

/// Turns (one poll of both ports) between two rounds of housekeeping.
const TURNS: u32 = 8;
/// Packets from other workers that a worker processes in one round of housekeeping. It may exceed
/// this number by less than a burst.
const HANDOFFS: usize = 8 * BURST_MAX;
/// Timers that a worker processes at a time, in addition to one per packet received in the turn. It
/// does so once a round, and in every turn while more timers are due. So a backlog shrinks even
/// under load. Ending a connection takes up to half a microsecond, in which no port is polled.
const TIMERS: usize = 16;
/// Rounds of housekeeping between two of rules. Requests and results may wait that long, and each
/// round of rules costs time, also if there is nothing to do.
const RULE_ROUNDS: u32 = 4;
/// Rules rechecked in one round of rules.
const RULES: usize = 64;
/// Events handed to subscribers in one round, in addition to one per packet received in it.
const EVENTS: usize = 16;
/// One burst in this many is measured by stage. The engine measures the same bursts, unless the
/// worker has dropped all frames of a burst, which the engine then does not count.
const SAMPLE_EVERY: u64 = engine::SAMPLE_EVERY as u64;
/// Time between two published snapshots, in nanoseconds.
const SNAPSHOT_NS: u64 = 1_000_000;

/// One direction through a pair: a receive queue and the transmit queue of the peer port. A queue
/// is `None` while its port is being reset.
struct ForwardPath {
    rx: Option<RxQueue>,
    tx: Option<TxQueue>,
}

/// The worker's ends of the channels to other threads.
pub(crate) struct WorkerChannels {
    pub(crate) counters: Arc<PublishedCounters>,
    pub(crate) records: Producer<FlowRecord>,
    pub(crate) rule_requests: RuleRequests,
    pub(crate) commands: CommandQueue,
    /// Serves snapshots; `None` if connections are not saved.
    pub(crate) checkpoint_source: Option<CheckpointSource>,
    /// Limits above which frames are dropped, by direction: up, down. `None`: all frames fit.
    pub(crate) limits: [Option<FrameLimits>; 2],
    /// Leases of the queues of each port: A, B.
    pub(crate) leases: [QueueLease; 2],
    /// Rings of hand-offs to and from the other workers of the wire.
    pub(crate) handoff_rings: HandoffRings,
    pub(crate) start_gate: Arc<StartGate>,
    pub(crate) stop: Arc<AtomicBool>,
}

/// Everything a worker owns.
pub(crate) struct Worker {
    /// Up and down.
    paths: [ForwardPath; 2],
    engine: Engine,
    clock: Clock,
    channels: WorkerChannels,
    account: Account,
    gaps: PollGaps,
    /// Fragments that wait for their verdict.
    held_packets: HeldPackets,
    rejects: Rejecter,
    /// True if more timers may be due than the last call of `expire` processed.
    is_behind: bool,
    /// True if the last turn received a full burst.
    had_full_burst: bool,
}

impl Worker {
    /// Creates a worker between queues of both ports, with an engine made from `config`.
    pub(crate) fn new(
        [a, b]: [QueuePair; 2],
        config: &engine::Config,
        clock: Clock,
        channels: WorkerChannels,
    ) -> Self {
        let engine = Engine::new(config);
        let (account, gaps) = (Account::default(), PollGaps::default());
        let paths = [(a.rx, b.tx), (b.rx, a.tx)];
        let paths = paths.map(|(rx, tx)| ForwardPath { rx: Some(rx), tx: Some(tx) });
        let held_packets = HeldPackets::new(engine.hold_slots());
        Self {
            paths,
            engine,
            clock,
            channels,
            account,
            gaps,
            held_packets,
            rejects: Rejecter::new(),
            is_behind: false,
            had_full_burst: false,
        }
    }

    /// Restores the connections of the previous run, aged until now.
    pub(crate) fn resume(mut self, resume: Resume, status: &CheckpointStatus) -> Self {
        let clock = self.clock;
        status.add(resume.restore(&mut self.engine, || clock.at(tsc())));
        self
    }

    /// Waits until all workers are ready. Forwards packets until the stop flag is set, then ends
    /// every connection.
    pub(crate) fn run(mut self) -> WorkerReport {
        // Warnings at the start need the memory of every table.
        self.channels.counters.write(&self.snapshot());
        self.channels.start_gate.pass(&self.channels.stop);
        let mut burst = Burst::new();
        let mut begin = tsc();
        let mut polled = begin;
        let (mut snapshot_at, mut round) = (0, 0);
        while !self.channels.stop.load(Ordering::Relaxed) {
            let received_before = self.account.received;
            for turn in 0..TURNS {
                self.gaps.add(begin.wrapping_sub(polled));
                polled = begin;
                let received = self.account.received;
                begin = self.poll_ports(begin, &mut burst);
                if self.is_behind || turn == 0 {
                    begin = self.expire(begin, (self.account.received - received) as usize);
                }
            }
            let now = self.clock.at(begin);
            let moved =
                self.process_handoffs() + self.push_records() + self.service_rules(&mut round, now);
            let (account, gaps, clock) = (&self.account, &self.gaps, &self.clock);
            let report = |engine: &Engine| WorkerReport::of(account, engine, gaps.summary(clock));
            let events = EVENTS + (self.account.received - received_before) as usize;
            // Events are sent before commands are served. So a subscriber that leaves in this round
            // still gets the events before it, up to the budget.
            let served = self.channels.commands.send_events(&mut self.engine, events, now)
                + self.channels.commands.serve(&mut self.engine, report)
                + self
                    .channels
                    .checkpoint_source
                    .as_mut()
                    .map_or(0, |source| source.serve(&self.engine));
            self.apply_lease_commands();
            if now >= snapshot_at {
                snapshot_at = now + SNAPSHOT_NS;
                self.channels.counters.write(&self.snapshot());
                let anomalies = self.engine.stats().anomalies;
                self.channels.counters.set_wrong_checksums(anomalies[Anomaly::Checksum as usize]);
                self.channels.counters.add_gap(self.gaps.take_longest());
            }
            let cycles = tsc().wrapping_sub(begin);
            begin += cycles;
            // A round of housekeeping that did nothing counts as idle.
            let was_busy = self.account.charge(cycles, moved + served);
            self.account.housekeeping_cycles += if was_busy { cycles } else { 0 };
        }
        self.finish()
    }

    /// Rechecks NIC rules, and exchanges requests and results of rules, in every
    /// [`RULE_ROUNDS`]th round. Returns the number of requests and results.
    #[inline(always)]
    fn service_rules(&mut self, round: &mut u32, now: u64) -> usize {
        *round = round.wrapping_add(1);
        if *round % RULE_ROUNDS != 0 {
            return 0;
        }
        self.engine.recheck_rules(now, RULES);
        self.channels.rule_requests.exchange(&mut self.engine)
    }

    /// Ends connections whose timeout has passed, and hands over their records. `begin` and the
    /// result are readings of the cycle counter at the start and the end.
    #[inline(always)]
    fn expire(&mut self, begin: u64, received: usize) -> u64 {
        let budget = received + TIMERS;
        let checked = self.engine.expire(self.clock.at(begin), budget);
        self.is_behind = checked == budget;
        if self.engine.has_releases() {
            self.forward_released();
        }
        if checked == 0 {
            return begin;
        }
        self.push_records();
        let now = tsc();
        let was_busy = self.account.charge(now.wrapping_sub(begin), 1);
        self.account.housekeeping_cycles += if was_busy { now.wrapping_sub(begin) } else { 0 };
        now
    }

    /// Polls both ports. `begin` and the result are readings of the cycle counter at start and end.
    ///
    /// The counter is read after each poll. After a turn with a full burst, the worker has no time
    /// to lose: then it is not read after an empty poll, whose time is added to the next reading.
    #[inline(always)]
    fn poll_ports(&mut self, mut begin: u64, burst: &mut Burst) -> u64 {
        let mut in_turn = 0;
        for direction in 0..self.paths.len() {
            let received = self.forward(direction, begin, burst);
            in_turn += received;
            let is_last = direction + 1 == self.paths.len();
            if received > 0 || !self.had_full_burst || is_last && in_turn == 0 {
                let now = tsc();
                self.account.charge(now.wrapping_sub(begin), received);
                begin = now;
            }
        }
        self.had_full_burst = in_turn >= BURST_MAX;
        begin
    }

    /// Returns or takes queues if the control thread requests it, before and after it resets a
    /// port.
    #[inline(always)]
    fn apply_lease_commands(&mut self) {
        for side in 0..SIDES.len() {
            if let Some(command) = self.channels.leases[side].next_command() {
                self.apply_lease_command(side, command);
            }
        }
    }

    #[cold]
    fn apply_lease_command(&mut self, side: usize, command: LeaseCommand) {
        let rx = &mut self.paths[side].rx;
        match command {
            LeaseCommand::Use(pair) => {
                *rx = Some(pair.rx);
                self.paths[1 - side].tx = Some(pair.tx);
                // The packets that were in the queues before the reset are lost, so no packet with
                // an older mark is left.
                self.engine.queue_drained(SIDES[side]);
            }
            LeaseCommand::GiveBack => {
                if let (Some(rx), Some(tx)) = (rx.take(), self.paths[1 - side].tx.take()) {
                    self.channels.leases[side].give_back(QueuePair { rx, tx });
                }
            }
        }
    }

    /// Forwards one burst from one port to its peer; returns the number of packets received.
    #[inline(always)]
    fn forward(&mut self, direction: usize, begin: u64, burst: &mut Burst) -> usize {
        let path = &mut self.paths[direction];
        let Some(rx) = &mut path.rx else { return 0 };
        let received = rx.burst(burst);
        if received == 0 {
            self.engine.queue_drained(SIDES[direction]);
            return 0;
        }
        let account = &mut self.account;
        account.received += received as u64;
        account.bursts += 1;
        let is_sampled = account.bursts % SAMPLE_EVERY == 0;
        let fetched = if is_sampled { tsc() } else { 0 };
        if let Some(limits) = &self.channels.limits[direction] {
            let (cut, over_mtu) = limits.drop_unfit(burst);
            account.cut += cut;
            account.over_mtu += over_mtu;
            if burst.is_empty() {
                return received;
            }
        }

        let kept = burst.len();
        let mut verdicts = [Verdict::Forward; BURST_MAX];
        let bytes_before = self.engine.stats().bytes;
        let now = self.clock.at(begin);
        self.engine.process_from(SIDES[direction], now, burst, &mut verdicts);
        let mut bytes = self.engine.stats().bytes - bytes_before;
        if verdicts[..kept].iter().fold(false, |any, v| any | (*v != Verdict::Forward)) {
            self.apply_verdicts((direction, now), burst, &verdicts);
            bytes = frame_bytes(burst);
        }

        let tracked = if is_sampled { tsc() } else { 0 };
        let account = &mut self.account;
        let (sent, unsent) = match &mut self.paths[direction].tx {
            Some(tx) => (tx.burst(burst), &mut account.tx_full),
            None => (0, &mut account.port_reset),
        };
        if !burst.is_empty() {
            bytes -= frame_bytes(burst);
            *unsent += burst.free_all() as u64;
        }
        let (sent_packets, sent_bytes) = &mut account.sent[direction];
        *sent_packets += sent as u64;
        *sent_bytes += bytes;
        if is_sampled {
            account.sampled.add_burst(received as u64, [begin, fetched, tracked, tsc()]);
        }
        if self.engine.has_releases() {
            self.forward_released();
        }
        received
    }

    /// Carries out the verdicts of a burst. Packets to forward stay in it.
    #[cold]
    fn apply_verdicts(
        &mut self,
        arrived: (usize, u64),
        burst: &mut Burst,
        verdicts: &[Verdict; BURST_MAX],
    ) {
        let parts = (&mut self.engine, &mut self.channels.handoff_rings, &mut self.rejects);
        self.held_packets.apply_verdicts(arrived, burst, verdicts, parts);
        // The other path leaves through the port at which these packets arrived.
        self.rejects.send(self.paths[1 - arrived.0].tx.as_mut());
        self.account.rejects = self.rejects.counts;
    }

    /// Sends or frees held packets that the engine has released.
    #[cold]
    fn forward_released(&mut self) {
        let mut bursts = [Burst::new(), Burst::new()];
        while let Some((direction, mbuf)) =
            self.held_packets.next_released(&mut self.engine, &mut self.channels.handoff_rings)
        {
            if bursts[direction].room() == 0 {
                self.send_late(direction, &mut bursts[direction]);
            }
            // The burst has room: a full one was just sent. `push` would free the mbuf otherwise.
            let _ = bursts[direction].push(mbuf);
        }
        for (direction, burst) in bursts.iter_mut().enumerate() {
            self.send_late(direction, burst);
        }
    }

    /// Processes packets that other workers handed off to this one; returns how many.
    #[inline(always)]
    fn process_handoffs(&mut self) -> usize {
        if self.channels.handoff_rings.has_packets() { self.process_some_handoffs() } else { 0 }
    }

    #[cold]
    fn process_some_handoffs(&mut self) -> usize {
        let mut taken = 0;
        while taken < HANDOFFS {
            let Some(bursts) = self.channels.handoff_rings.receive() else { break };
            for (direction, mut burst) in bursts.into_iter().enumerate() {
                if burst.is_empty() {
                    continue;
                }
                taken += burst.len();
                let mut verdicts = [Verdict::Forward; BURST_MAX];
                let arrived = (SIDES[direction], self.clock.at(tsc()));
                let handoffs = self.channels.handoff_rings.handoffs(direction);
                self.engine.process_handoffs(arrived, &burst, handoffs, &mut verdicts);
                self.apply_handoff_verdicts((direction, arrived.1), &mut burst, &verdicts);
                self.send_late(direction, &mut burst);
            }
        }
        taken
    }

    /// Frees and answers packets from other workers by their verdicts. Packets to forward stay in
    /// the burst.
    fn apply_handoff_verdicts(
        &mut self,
        (direction, now): (usize, u64),
        burst: &mut Burst,
        verdicts: &[Verdict; BURST_MAX],
    ) {
        let per_second = self.engine.access_limits().rejects_per_second;
        burst.sort_out(|i, mbuf| match verdicts[i] {
            Verdict::Forward => Some(mbuf),
            Verdict::Reject => {
                self.rejects.add(mbuf, per_second, now);
                None
            }
            Verdict::Drop | Verdict::Hold | Verdict::Elsewhere => None,
        });
        self.rejects.send(self.paths[1 - direction].tx.as_mut());
        self.account.rejects = self.rejects.counts;
    }

    fn send_late(&mut self, direction: usize, burst: &mut Burst) {
        let bytes = frame_bytes(burst);
        let (sent, unsent) = match &mut self.paths[direction].tx {
            Some(tx) => (tx.burst(burst), &mut self.account.tx_full),
            None => (0, &mut self.account.port_reset),
        };
        let (sent_packets, sent_bytes) = &mut self.account.sent[direction];
        *sent_packets += sent as u64;
        *sent_bytes += bytes - frame_bytes(burst);
        *unsent += burst.free_all() as u64;
    }

    /// Pushes flow records to the ring while it has room; returns how many. The number per call is
    /// not limited, so that records of connections that ended by port reuse do not fill the
    /// engine's queue.
    fn push_records(&mut self) -> usize {
        let mut taken = 0;
        while self.channels.records.slots() > 0 {
            let Some(record) = self.engine.next_record() else { break };
            self.channels.records.push(record).expect("there is a slot, and no one else pushes");
            taken += 1;
        }
        taken
    }

    fn snapshot(&self) -> Snapshot {
        let (account, stats) = (&self.account, self.engine.stats());
        Snapshot {
            sent: account.sent,
            received: account.received,
            dropped: stats.dropped.iter().sum::<u64>() + account.dropped(),
            active: stats.active(),
            marked: self.engine.mark_stats().counted,
            by_list_mark: self.engine.list_mark_stats().map_or(0, |stats| stats.decided),
            aside: SIDES.map(|side| self.engine.offload_state(side).kinds_aside.into()),
            busy_cycles: account.busy_cycles,
            idle_cycles: account.idle_cycles,
            stalled_cycles: account.stalled_cycles,
            memory: self.engine.memory(),
            sample: account.stages(stats),
        }
    }

    /// Ends the remaining connections. Waits for ring space, so that no record is lost.
    fn finish(mut self) -> WorkerReport {
        self.engine.release_all();
        self.forward_released();
        self.channels.handoff_rings.close();
        while !self.channels.handoff_rings.is_closed() {
            self.process_handoffs();
            std::hint::spin_loop();
        }
        self.channels.counters.write(&self.snapshot());
        let admission = SIDES.map(|side| self.engine.offload_state(side));
        // Events are not needed any more: every connection ends.
        self.engine.subscribe(false);
        self.channels.rule_requests.settle(&mut self.engine);
        while self.engine.flush(TIMERS) {
            self.push_records();
        }
        while let Some(record) = self.engine.next_record() {
            let mut waiting = Some(record);
            while let Some(record) = waiting.take() {
                if let Err(rtrb::PushError::Full(record)) = self.channels.records.push(record) {
                    waiting = Some(record);
                    std::thread::yield_now();
                }
            }
        }
        self.channels.counters.write(&self.snapshot());
        let poll_gap = self.gaps.summary(&self.clock);
        WorkerReport { admission, ..WorkerReport::of(&self.account, &self.engine, poll_gap) }
    }
}

fn frame_bytes(burst: &Burst) -> u64 {
    burst.iter().map(|mbuf| mbuf.frame_len() as u64).sum()
}
