// SPDX-License-Identifier: BSD-3-Clause
//! Adds and removes redirects. Each frame that arrives at one device leaves by another, before the
//! host's stack sees it. A redirect is tc-mirred(8) behind tc-u32(8), at the ingress of the
//! `clsact` queueing discipline.
//!
//! If the second device is a tap, its kernel side does the work left to hardware. It cuts joined
//! segments, fills in checksums and restores VLAN tags (`validate_xmit_skb` in net/core/dev.c).

use super::netlink::{Netlink, is_no_device};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{
    TcAction, TcActionAttribute, TcActionGeneric, TcActionMirror, TcActionMirrorOption,
    TcActionOption, TcActionType, TcAttribute, TcFilterU32, TcFilterU32Option, TcHandle, TcHeader,
    TcMessage, TcMirror, TcMirrorActionType, TcOption, TcStats2, TcU32Key, TcU32Selector,
    TcU32SelectorFlags,
};
use rustix::io::Errno;
use std::io;

/// Priority that identifies filters of Millrace: `mr` in ASCII.
const PRIORITY: u16 = 0x6d72;
/// Bytes of an Ethernet header.
const ETHERNET_HEADER: i32 = 14;
/// Frames of every protocol, in network byte order.
const ALL_PROTOCOLS: u16 = 0x0003_u16.to_be();

/// Which frames a redirect takes.
#[derive(Clone, Copy)]
enum RedirectedFrames {
    All,
    /// No frame; such a redirect only tests the kernel.
    None,
}

/// Redirects every frame that arrives at device `from` to device `to`. Replaces a redirect that a
/// killed instance has left.
pub(super) fn add(netlink: &mut Netlink, from: u32, to: u32) -> io::Result<()> {
    add_clsact(netlink, from)?;
    remove_filter(netlink, from)?;
    add_filter(netlink, from, to, RedirectedFrames::All)
}

/// Tests whether the kernel can redirect frames that arrive at device `from`.
pub(super) fn try_out(netlink: &mut Netlink, from: u32) -> io::Result<()> {
    let made = add_clsact(netlink, from)?;
    let result = remove_filter(netlink, from)
        .and_then(|()| add_filter(netlink, from, from, RedirectedFrames::None))
        .and_then(|()| remove_filter(netlink, from));
    if made {
        remove_clsact(netlink, from)?;
    }
    result
}

/// Ends the redirect of device `from`, if there is one.
pub(super) fn remove_filter(netlink: &mut Netlink, from: u32) -> io::Result<()> {
    let request = RouteNetlinkMessage::DelTrafficFilter(message(from, ingress(), PRIORITY));
    accept(netlink.send_request(request, 0), &[Errno::NOENT, Errno::INVAL, Errno::NODEV])
}

/// Returns how many frames the redirect of device `from` could not pass on. The other device was
/// down, or its queue full (`overlimits` of tcf_mirred_act in net/sched/act_mirred.c).
pub(super) fn failures(netlink: &mut Netlink, from: u32) -> io::Result<u64> {
    let request = RouteNetlinkMessage::GetTrafficFilter(message(from, ingress(), PRIORITY));
    let answers = netlink.send_request(request, NLM_F_DUMP)?;
    let filters = answers.iter().filter_map(|answer| match answer {
        RouteNetlinkMessage::NewTrafficFilter(filter) => Some(filter.attributes.iter()),
        _ => None,
    });
    let options = filters.flatten().filter_map(|attribute| match attribute {
        TcAttribute::Options(options) => Some(options.iter()),
        _ => None,
    });
    let actions = options.flatten().filter_map(|option| match option {
        TcOption::U32(TcFilterU32Option::Action(actions)) => Some(actions.iter()),
        _ => None,
    });
    let stats = actions.flatten().flat_map(|action| &action.attributes).filter_map(|attribute| {
        match attribute {
            TcActionAttribute::Stats(stats) => Some(stats.iter()),
            _ => None,
        }
    });
    let overlimits = stats.flatten().map(|stats| match stats {
        TcStats2::Queue(queue) => u64::from(queue.overlimits),
        _ => 0,
    });
    Ok(overlimits.sum())
}

/// Adds the `clsact` queueing discipline to device `index`, for the filters. True if it was
/// missing.
pub(super) fn add_clsact(netlink: &mut Netlink, index: u32) -> io::Result<bool> {
    let mut message = message(index, TcHandle::CLSACT, 0);
    message.header.handle = TcHandle { major: 0xffff, minor: 0 };
    message.attributes.push(TcAttribute::Kind("clsact".to_owned()));
    let request = RouteNetlinkMessage::NewQueueDiscipline(message);
    match netlink.send_request(request, NLM_F_CREATE | NLM_F_EXCL) {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(Errno::EXIST.raw_os_error()) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes the `clsact` queueing discipline.
pub(super) fn remove_clsact(netlink: &mut Netlink, index: u32) -> io::Result<()> {
    let mut message = message(index, TcHandle::CLSACT, 0);
    message.header.handle = TcHandle { major: 0xffff, minor: 0 };
    let request = RouteNetlinkMessage::DelQueueDiscipline(message);
    accept(netlink.send_request(request, 0), &[Errno::NOENT, Errno::INVAL, Errno::NODEV])
}

fn add_filter(
    netlink: &mut Netlink,
    from: u32,
    to: u32,
    takes: RedirectedFrames,
) -> io::Result<()> {
    let mut mirror = TcMirror::default();
    let mut generic = TcActionGeneric::default();
    generic.action = TcActionType::Stolen;
    mirror.generic = generic;
    mirror.eaction = TcMirrorActionType::EgressRedir;
    mirror.ifindex = to;
    let mut action = TcAction::default();
    action.tab = 1;
    action.attributes = vec![
        TcActionAttribute::Kind(TcActionMirror::KIND.to_owned()),
        TcActionAttribute::Options(vec![TcActionOption::Mirror(TcActionMirrorOption::Parms(
            mirror,
        ))]),
    ];
    // Matches within the Ethernet header: a frame may be too short for a key behind it.
    let mut key = TcU32Key::default();
    key.off = -ETHERNET_HEADER;
    if let RedirectedFrames::None = takes {
        // Under mask 0 this value never matches.
        key.val = u32::MAX;
    }
    let mut selector = TcU32Selector::default();
    selector.flags = TcU32SelectorFlags::Terminal;
    selector.nkeys = 1;
    selector.keys = vec![key];
    let options = vec![
        TcOption::U32(TcFilterU32Option::Selector(selector)),
        TcOption::U32(TcFilterU32Option::Action(vec![action])),
    ];
    let mut message = message(from, ingress(), PRIORITY);
    message.attributes.push(TcAttribute::Kind(TcFilterU32::KIND.to_owned()));
    message.attributes.push(TcAttribute::Options(options));
    let request = RouteNetlinkMessage::NewTrafficFilter(message);
    netlink.send_request(request, NLM_F_CREATE | NLM_F_EXCL).map(drop)
}

fn ingress() -> TcHandle {
    TcHandle { major: 0xffff, minor: TcHandle::MIN_INGRESS }
}

fn message(index: u32, parent: TcHandle, priority: u16) -> TcMessage {
    let mut message = TcMessage::default();
    message.header = TcHeader { index: index as i32, parent, ..TcHeader::default() };
    if priority > 0 {
        message.header.info = TcHandle { major: priority, minor: ALL_PROTOCOLS }.into();
    }
    message
}

/// Treats some errors as success: the object to remove is already gone.
fn accept<T>(result: io::Result<T>, errors: &[Errno]) -> io::Result<()> {
    match result {
        Err(error) if is_no_device(&error) => Ok(()),
        Err(error) => {
            let is_one = |one: &Errno| error.raw_os_error() == Some(one.raw_os_error());
            if errors.iter().any(is_one) { Ok(()) } else { Err(error) }
        }
        Ok(_) => Ok(()),
    }
}
