// SPDX-License-Identifier: BSD-3-Clause

use super::*;
use std::sync::atomic::AtomicBool;

struct Nobody;

impl Watcher for Nobody {
    fn stage(&mut self, _: &'static str, _: &Personality) {}
    fn step(&mut self, _: u64, _: u64) {}
}

fn probed(personality: &Personality) -> Found {
    let mut model = Model::new(personality.clone(), 4);
    let found = probe(&mut model, Extent { restart: true }, &mut Nobody, &AtomicBool::new(false));
    assert_eq!(model.len(), 0, "no rule stays");
    found
}

#[test]
fn show() {
    let name = std::env::var("P").unwrap_or("x710-17.02".to_owned());
    let personality = Personality::named(&name).unwrap();
    let found = probed(&personality);
    println!("{}", found.personality.to_toml());
    println!("{:?} {:?}", found.calls, found.times);
    println!("stopped {:?}", found.stopped);
    println!("notes {:#?}", found.notes);
    println!("unlike {} {:#?}", found.unlike.len(), &found.unlike[..found.unlike.len().min(20)]);
}
