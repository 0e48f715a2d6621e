// SPDX-License-Identifier: BSD-3-Clause
//! One NIC of the model under operations that the input chooses: rules that come and go, ports that
//! start and stop, time, packets. A rule is there from its creation to its end, once; a handle
//! works as long; a mark comes from a rule that is there; a refusal is about a place in the rule.

use crate::frames::FRAMES;
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use std::collections::HashMap;
use twin::rss::{KEY_LEN, Rss, RssTypes};
use twin::{
    Action, Attributes, Counted, HEADER_MAX, Handle, Item, ItemSpec, Nic, Personality, Place,
    Proto, Refusal, Rule, Spread,
};

/// As many as the C edge hands over.
const ENTRIES_MAX: usize = 32;

struct Port {
    nic: Nic,
    /// With the marks they give.
    live: HashMap<Handle, Option<u32>>,
    order: Vec<Handle>,
    gone: Vec<Handle>,
    /// Rules that are destroyed may still mark.
    marks_linger: bool,
    now_us: u64,
}

/// Until the input ends.
pub(crate) fn treat(personality: Personality, input: &mut Unstructured<'_>) -> Result<()> {
    let marks_linger = personality.latency.effective_until_us != 0;
    let nic = Nic::new(personality, input.arbitrary()?);
    let (live, order, gone) = (HashMap::new(), Vec::new(), Vec::new());
    let mut port = Port { nic, live, order, gone, marks_linger, now_us: 0 };
    while !input.is_empty() {
        port.step(input)?;
        assert_eq!(port.nic.len(), port.live.len());
        assert_eq!(port.nic.is_empty(), port.live.is_empty());
    }
    Ok(())
}

impl Port {
    fn step(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        match input.int_in_range(0..=9)? {
            0..=2 => self.create(input)?,
            3 => self.destroy(input)?,
            4 => self.query(input)?,
            5 => self.start_or_stop(input.arbitrary()?),
            6 => self.reconfigure(input)?,
            7 if input.ratio(1, 8)? => self.flush(),
            7 => self.now_us += u64::from(input.arbitrary::<u32>()?),
            _ => self.classify(input)?,
        }
        Ok(())
    }

    fn create(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let items = list(input, item)?;
        let actions = list(input, action)?;
        let rule = Rule { attributes: attributes(input)?, items: &items, actions: &actions };
        let check = |refusal: Refusal| match refusal.place {
            Place::Rule => {}
            Place::Item(place) => assert!(place <= items.len()),
            Place::Action(place) => assert!(place <= actions.len()),
        };
        if let Err(refusal) = self.nic.validate(rule) {
            check(refusal);
        }
        match self.nic.create(rule, self.now_us) {
            Ok(answer) => {
                let mut marks = actions.iter().filter_map(|action| match action {
                    Action::Mark(mark) => Some(*mark),
                    _ => None,
                });
                let is_new = self.live.insert(answer.value, marks.next_back()).is_none();
                assert!(is_new && !self.gone.contains(&answer.value));
                self.order.push(answer.value);
            }
            Err(refusal) => check(refusal),
        }
        Ok(())
    }

    fn destroy(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        if let Some(place) = any_place(&self.order, input)? {
            let handle = self.order.swap_remove(place);
            self.nic.destroy(handle, self.now_us).expect("it is there");
            self.live.remove(&handle);
            self.gone.push(handle);
        }
        self.gone_is_gone(input)
    }

    fn gone_is_gone(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        if let Some(place) = any_place(&self.gone, input)? {
            assert!(self.nic.destroy(self.gone[place], self.now_us).is_err());
            assert!(self.nic.query(self.gone[place], true, self.now_us).is_err());
        }
        Ok(())
    }

    fn query(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        if let Some(place) = any_place(&self.order, input)? {
            let _ = self.nic.query(self.order[place], input.arbitrary()?, self.now_us);
        }
        self.gone_is_gone(input)
    }

    fn start_or_stop(&mut self, is_started: bool) {
        self.nic.set_started(is_started);
        if self.nic.is_empty() {
            self.forget_all();
        }
    }

    fn flush(&mut self) {
        if self.nic.flush().is_ok() {
            self.forget_all();
        }
    }

    fn forget_all(&mut self) {
        self.live.clear();
        self.gone.append(&mut self.order);
    }

    fn reconfigure(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        self.nic.set_queues(input.arbitrary()?);
        self.nic.set_switch(input.arbitrary()?);
        let key: [u8; KEY_LEN] = input.arbitrary()?;
        let len = input.int_in_range(1..=8)?;
        let reta: Vec<u16> = (0..len).map(|_| input.arbitrary()).collect::<Result<_>>()?;
        self.nic.set_rss(Rss::new(RssTypes(input.arbitrary()?), &key, reta));
        Ok(())
    }

    fn classify(&self, input: &mut Unstructured<'_>) -> Result<()> {
        let mut frame = FRAMES[input.choose_index(FRAMES.len())?].to_vec();
        for _ in 0..input.int_in_range(0..=4)? {
            let at = input.choose_index(frame.len())?;
            frame[at] = input.arbitrary()?;
        }
        if input.ratio(1, 4)? {
            frame.truncate(input.choose_index(frame.len())?);
        }
        let len = input.arbitrary()?;
        let foreseen = self.nic.foresee(&frame, self.now_us);
        let verdict = self.nic.classify(&frame, len, self.now_us);
        assert_eq!(verdict, foreseen);
        if let Counted::By(counter) = verdict.counted {
            self.nic.count(counter, len, self.now_us);
        }
        let mut given = self.live.values().flatten();
        assert!(self.marks_linger || verdict.mark.is_none_or(|mark| given.any(|&g| g == mark)));
        Ok(())
    }
}

fn any_place<T>(list: &[T], input: &mut Unstructured<'_>) -> Result<Option<usize>> {
    if list.is_empty() { Ok(None) } else { input.choose_index(list.len()).map(Some) }
}

fn list<T>(
    input: &mut Unstructured<'_>,
    one: impl Fn(&mut Unstructured<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let mut list = Vec::new();
    while list.len() < ENTRIES_MAX && input.ratio(3, 4)? {
        list.push(one(input)?);
    }
    Ok(list)
}

fn attributes(input: &mut Unstructured<'_>) -> Result<Attributes> {
    let mut number = || if input.ratio(7, 8)? { Ok(0) } else { input.int_in_range(0..=20) };
    let (group, priority) = (number()?, number()?);
    let (ingress, egress) = (input.ratio(15, 16)?, input.ratio(1, 16)?);
    let (transfer, names_port) = (input.ratio(1, 16)?, input.ratio(1, 16)?);
    Ok(Attributes { group, priority, ingress, egress, transfer, names_port })
}

fn bytes(input: &mut Unstructured<'_>) -> Result<[u8; HEADER_MAX]> {
    match input.int_in_range(0..=2)? {
        0 => Ok([0; HEADER_MAX]),
        1 => Ok([0xff; HEADER_MAX]),
        _ => input.arbitrary(),
    }
}

fn item(input: &mut Unstructured<'_>) -> Result<Item> {
    let proto = *input.choose(&Proto::ALL)?;
    let [spec, last, mask] = [0, 1, 2].map(|bit| move |given: u8| given & 1 << bit != 0);
    let given: u8 = input.arbitrary()?;
    Ok(Item {
        proto,
        given: ItemSpec { spec: spec(given), last: last(given), mask: mask(given) },
        spec: bytes(input)?,
        last: bytes(input)?,
        mask: bytes(input)?,
        followed: input.arbitrary()?,
    })
}

fn action(input: &mut Unstructured<'_>) -> Result<Action> {
    Ok(match input.int_in_range(0..=10)? {
        0 => Action::Mark(input.arbitrary()?),
        1 => Action::Flag,
        2 => Action::Queue(input.arbitrary()?),
        3 => Action::Drop,
        4 => Action::Passthru,
        5 => Action::Count,
        6 => Action::Jump(input.int_in_range(0..=20)?),
        7 => Action::PortId(input.arbitrary()?),
        8 => Action::RepresentedPort(input.arbitrary()?),
        9 => Action::PortRepresentor(input.arbitrary()?),
        _ => {
            let queues: Vec<u16> = list(input, |input| input.arbitrary())?;
            Action::Rss(Spread { types: RssTypes(input.arbitrary()?), queues: queues.into() })
        }
    })
}
