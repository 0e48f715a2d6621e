// SPDX-License-Identifier: BSD-3-Clause
//! Creates a cable inside the process: two `net_ring` ports, each of which receives the packets
//! that the other sends.

use crate::error::{Errno, PortError};
use crate::ethdev::KeepAlive;
use crate::{Eal, Port, log, sys};
use std::ffi::CString;
use std::ptr::NonNull;
use std::sync::Arc;

/// Creates both ends of a cable with `queues` queues each. Queue `q` of one end leads to queue `q`
/// of the other; each direction of a queue holds `packets` packets. `name` must be new in this
/// process.
pub fn ring_cable(
    eal: &Eal,
    name: &str,
    queues: u16,
    packets: u32,
) -> Result<(Port, Port), PortError> {
    let (result, log) = log::capture(|| {
        let there = Rings::new(&format!("{name}_there"), queues, packets)?;
        let back = Rings::new(&format!("{name}_back"), queues, packets)?;
        Ok(Arc::new((there, back)))
    });
    let rings = result.map_err(|errno| {
        let port = name.to_owned();
        PortError::Probe { port, errno, log, cause: None, parameters: None }
    })?;
    let (there, back) = &*rings;
    let a = end(eal, &format!("{name}_a"), (back, there), &rings)?;
    let b = end(eal, &format!("{name}_b"), (there, back), &rings)?;
    Ok((a, b))
}

/// Creates a port that receives from the first rings and sends to the second; `cable` has both.
fn end(
    eal: &Eal,
    name: &str,
    (receive, transmit): (&Rings, &Rings),
    cable: &Arc<(Rings, Rings)>,
) -> Result<Port, PortError> {
    let (result, log) = log::capture(|| ethdev(name, receive, transmit));
    let id = result.map_err(|errno| {
        let port = name.to_owned();
        PortError::Probe { port, errno, log, cause: None, parameters: None }
    })?;
    let keep: KeepAlive = cable.clone();
    Port::take(eal, id, name, Some(keep))
}

/// Creates an ethdev on these rings; returns its number.
fn ethdev(name: &str, receive: &Rings, transmit: &Rings) -> Result<u16, Errno> {
    let name = CString::new(name).map_err(|_| Errno::Invalid)?;
    let (rx, tx) = (receive.0.as_ptr().cast(), transmit.0.as_ptr().cast());
    let count = receive.0.len() as u32;
    // SAFETY: EAL is up; both arrays hold `count` rings, which outlive the ethdev (`KeepAlive`);
    // the name is copied.
    let id = unsafe {
        sys::rte_eth_from_rings(name.as_ptr(), rx, count, tx, count, sys::BIND_SOCKET_ANY as u32)
    };
    u16::try_from(id).map_err(|_| Errno::last())
}

/// The rings of one direction, one for each queue. Mbufs left in them are freed with them.
struct Rings(Vec<NonNull<sys::rte_ring>>);

// SAFETY: rings are made for two threads; this value only keeps them and frees them once.
unsafe impl Send for Rings {}
// SAFETY: as above.
unsafe impl Sync for Rings {}

impl Rings {
    fn new(name: &str, queues: u16, packets: u32) -> Result<Self, Errno> {
        let mut rings = Self(Vec::new());
        for queue in 0..queues {
            let name = CString::new(format!("{name}{queue}")).map_err(|_| Errno::Invalid)?;
            // Each queue has one user, so a ring has one sender and one receiver.
            let flags = sys::BIND_RING_ONE_TO_ONE;
            // SAFETY: EAL is up; the name is copied.
            let ring = unsafe {
                sys::rte_ring_create(name.as_ptr(), packets, sys::BIND_SOCKET_ANY, flags)
            };
            rings.0.push(NonNull::new(ring).ok_or_else(Errno::last)?);
        }
        Ok(rings)
    }
}

impl Drop for Rings {
    fn drop(&mut self) {
        for ring in &self.0 {
            // SAFETY: both ethdevs on this ring are closed; its entries are mbufs.
            unsafe {
                sys::shim_ring_drain(ring.as_ptr());
                sys::rte_ring_free(ring.as_ptr());
            }
        }
    }
}
