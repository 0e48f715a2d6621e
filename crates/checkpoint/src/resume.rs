// SPDX-License-Identifier: BSD-3-Clause
//! Restores the connections of the previous run: finds the files that each worker reads, and counts
//! the outcome.

use super::{Header, Place, RSS_SECRET_LEN, Reader, Refusal, Store, Truncation};
use engine::{ConnSnapshot, Engine, Nanos, RestoreOutcome, ZoneSource};
use std::fs::File;
use std::io::{self, BufReader};
use std::path::PathBuf;
use std::time::{Duration, Instant};

type FileReader = Reader<BufReader<File>>;

/// Folder and interval of the snapshots of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Folder of the files.
    pub folder: PathBuf,
    /// Time between two snapshots; `None` for a single one at the end.
    pub every: Option<Duration>,
}

/// The snapshots of a run: those of the previous run, and the place of its own.
pub struct Snapshots {
    /// Folder of the files.
    pub store: Store,
    /// Time between two snapshots; `None` for a single one at the end.
    pub every: Option<Duration>,
    /// RSS secret of the previous run, if it left a file. Without this secret, packets of restored
    /// connections may go to other workers, where they begin new connections.
    pub rss: Option<[u8; RSS_SECRET_LEN]>,
    /// Source of zones, by pair.
    zones: Vec<ZoneSource>,
    /// Files to read, by pair and worker.
    found: Vec<Vec<Resume>>,
    /// Files that could not be read, and why.
    pub complaints: Vec<String>,
}

/// Files that a worker reads before its first packet.
#[derive(Default)]
pub struct Resume(Vec<(Store, Place)>);

/// The outcome of restoring connections.
#[derive(Debug, Default)]
pub struct ResumeOutcome {
    /// Connections restored.
    pub restored: u64,
    /// Connections whose timeout had passed meanwhile.
    pub expired: u64,
    /// Connections that the engine did not take.
    pub refused: u64,
    /// Time that it took.
    pub took: Duration,
    /// Faults of the files, a line each.
    pub complaints: Vec<String>,
}

impl Snapshots {
    /// Finds files for `pairs`: each has a number of workers and a source of zones. If there are
    /// files, their RSS secret is kept for the ports.
    ///
    /// # Errors
    ///
    /// If the folder cannot be made or opened, or if others may write to it.
    pub fn open(
        settings: &Settings,
        pairs: impl Iterator<Item = (usize, ZoneSource)>,
    ) -> io::Result<Self> {
        let store = Store::open(&settings.folder)?;
        let (zones, found, complaints) = (Vec::new(), Vec::new(), Vec::new());
        let every = settings.every;
        let mut snapshots = Self { store, every, rss: None, zones, found, complaints };
        for (pair, (workers, zone)) in pairs.enumerate() {
            snapshots.zones.push(zone);
            let of_pair = snapshots.of_pair(pair as u16, workers as u16);
            snapshots.found.push(of_pair);
        }
        Ok(snapshots)
    }

    /// Assigns the files of a pair to its workers. If the previous run had the same number of
    /// workers, each worker reads its own file. Otherwise the RSS spread differs, so every worker
    /// reads all files.
    fn of_pair(&mut self, pair: u16, workers: u16) -> Vec<Resume> {
        let mut found: Vec<_> = (0..workers).map(|_| Resume::default()).collect();
        let Some(had) = self.first_header(pair, workers).map(|header| header.workers) else {
            return found;
        };
        for worker in 0..had {
            let place = Place { pair, worker };
            // A file with another number of workers is from another run.
            let Some(reader) = self.read(place).filter(|it| it.header.workers == had) else {
                continue;
            };
            let readers: &mut [Resume] = match had == workers {
                true => &mut found[usize::from(worker)..=usize::from(worker)],
                false => &mut found,
            };
            self.rss.get_or_insert(reader.header.rss);
            readers.iter_mut().for_each(|resume| resume.0.push((self.store.clone(), place)));
        }
        found
    }

    fn first_header(&mut self, pair: u16, workers: u16) -> Option<Header> {
        let mut places = (0..workers).map(|worker| Place { pair, worker });
        places.find_map(|place| Some(self.read(place)?.header))
    }

    /// Opens the file of a worker if it is valid for this run.
    fn read(&mut self, place: Place) -> Option<FileReader> {
        let zone = self.zones[usize::from(place.pair)];
        let why = match self.store.read(place) {
            Ok(Some(reader)) if reader.header.zone == zone => return Some(reader),
            Ok(Some(_)) => "it was written with another `zone` setting".to_owned(),
            Ok(None) => return None,
            Err(Refusal::Io(error)) => error.to_string(),
            Err(refusal) => refusal.to_string(),
        };
        let path = self.store.path(place);
        let complaint = format!("snapshot {}: {why}", path.display());
        if !self.complaints.contains(&complaint) {
            self.complaints.push(complaint);
        }
        None
    }

    /// Returns the files that this worker is to read.
    pub fn take(&mut self, place: Place) -> Resume {
        let of_pair = self.found.get_mut(usize::from(place.pair));
        let found = of_pair.and_then(|pair| pair.get_mut(usize::from(place.worker)));
        found.map(std::mem::take).unwrap_or_default()
    }

    /// Returns the header of a worker's file. `rss` is the secret by which ports spread packets
    /// over the `workers`.
    pub fn header(
        &self,
        (place, workers): (Place, u16),
        created: Nanos,
        rss: &[u8; RSS_SECRET_LEN],
    ) -> Header {
        Header {
            program: env!("CARGO_PKG_VERSION").to_owned(),
            created,
            zone: self.zones[usize::from(place.pair)],
            place,
            workers,
            rss: *rss,
        }
    }
}

impl Resume {
    /// Restores all connections whose timeout has not passed.
    pub fn restore(self, engine: &mut Engine, now: impl Fn() -> Nanos) -> ResumeOutcome {
        let (mut resumed, begun) = (ResumeOutcome::default(), Instant::now());
        for (store, place) in self.0 {
            let before = resumed.restored;
            if let Err(why) = resumed.read((&store, place), engine, &now) {
                let (path, known) = (store.path(place), resumed.restored - before);
                let path = path.display();
                let complaint =
                    format!("snapshot {path}: {why}; {known} connections were restored");
                resumed.complaints.push(complaint);
            }
        }
        resumed.took = begun.elapsed();
        resumed
    }
}

impl ResumeOutcome {
    /// Reads the undamaged part of one file.
    fn read(
        &mut self,
        (store, place): (&Store, Place),
        engine: &mut Engine,
        now: impl Fn() -> Nanos,
    ) -> Result<(), String> {
        let reader = store.read(place).map_err(|refusal| refusal.to_string())?;
        let mut reader = reader.ok_or("it no longer exists")?;
        let mut flows = Vec::new();
        loop {
            match reader.next(&mut flows) {
                Ok(true) => self.restore(&flows, engine, now()),
                Ok(false) if reader.damaged == 0 => return Ok(()),
                Ok(false) => {
                    let (pages, lost) = (reader.damaged, reader.lost);
                    return Err(format!("damaged pages: {pages}, {lost} connections are lost"));
                }
                Err(Truncation::Page) => {}
                Err(damage) => return Err(damage.to_string()),
            }
        }
    }

    fn restore(&mut self, flows: &[ConnSnapshot], engine: &mut Engine, now: Nanos) {
        for flow in flows {
            *match engine.restore(flow, now) {
                RestoreOutcome::Known => &mut self.restored,
                RestoreOutcome::Expired => &mut self.expired,
                RestoreOutcome::Refused => &mut self.refused,
            } += 1;
        }
    }
}
