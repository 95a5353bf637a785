//! Tracks open connections and closes idle ones when there are too many.
//!
//! A connection is known once a request on it was authenticated. The number of unknown connections
//! is limited in total and per address: the one that has been idle longest is closed for a new one,
//! so that idle connections cannot lock other clients out. The limit per address does not apply to
//! trusted proxies, which connect for many clients. Entry type: [`ConnectionTracker`].

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::address_range::AddressRange;

/// Maximum number of connections, if the descriptor limit allows it.
const MAX_CONNECTIONS: usize = 8_192;

/// Minimum number of connections, whatever the descriptor limit is.
const MIN_CONNECTIONS: usize = 16;

/// File descriptors of the server itself: databases, logs, runtime.
const RESERVED_FILES: u64 = 128;

/// File descriptors per job: sandbox, session, log and model requests.
const FILES_PER_JOB: u64 = 32;

/// Limits on the number of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConnectionLimits {
    pub(crate) total: usize,
    /// Connections that are not authenticated.
    pub(crate) unknown: usize,
    /// Connections of one address that are not authenticated.
    pub(crate) unknown_per_address: usize,
}

impl ConnectionLimits {
    /// Divides the descriptors that remain when all jobs run.
    pub(crate) fn of(open_files: u64, jobs: usize) -> Self {
        let jobs = u64::try_from(jobs).unwrap_or(u64::MAX);
        let reserve = jobs
            .saturating_mul(FILES_PER_JOB)
            .saturating_add(RESERVED_FILES);
        let left = usize::try_from(open_files.saturating_sub(reserve)).unwrap_or(usize::MAX);
        let total = left.clamp(MIN_CONNECTIONS, MAX_CONNECTIONS);
        Self {
            total,
            unknown: total / 2,
            unknown_per_address: total / 4,
        }
    }
}

#[derive(Debug)]
pub(crate) struct ConnectionTracker {
    limits: ConnectionLimits,
    trusted_proxies: Vec<AddressRange>,
    state: Mutex<ConnectionTable>,
}

#[derive(Debug, Default)]
struct ConnectionTable {
    open: HashMap<u64, ConnectionEntry>,
    /// Idle unknown connections: the time when they became idle, and their number.
    idle: BTreeMap<u64, u64>,
    unknown: usize,
    unknown_of: HashMap<IpAddr, usize>,
    /// Source of connection numbers and of logical time.
    count: u64,
    dropped: u64,
}

#[derive(Debug)]
struct ConnectionEntry {
    address: IpAddr,
    is_known: bool,
    /// The key in [`ConnectionTable::idle`].
    idle: Option<u64>,
    cut: CancellationToken,
}

/// A connection that is open for as long as this value lives.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    connections: Arc<ConnectionTracker>,
    number: u64,
    /// Cancelled when the connection must be closed at once.
    pub(crate) cut: CancellationToken,
}

/// Request extension that refers to the request's connection.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionHandle(Arc<OpenConnection>);

impl ConnectionHandle {
    pub(crate) fn new(connection: Arc<OpenConnection>) -> Self {
        Self(connection)
    }

    /// Marks the connection as known: the request is authenticated.
    pub(crate) fn make_known(&self) {
        self.0.connections.make_known(self.0.number);
    }
}

impl ConnectionTracker {
    pub(crate) fn new(limits: ConnectionLimits, trusted_proxies: Vec<AddressRange>) -> Arc<Self> {
        Arc::new(Self {
            limits,
            trusted_proxies,
            state: Mutex::default(),
        })
    }

    pub(crate) fn open_count(&self) -> usize {
        self.state().open.len()
    }

    /// Connections that were closed or refused to make room.
    pub(crate) fn dropped_count(&self) -> u64 {
        self.state().dropped
    }

    /// Registers a new connection, and closes another if there are too many. `None` if there is no
    /// room and none can be closed.
    pub(crate) fn enter(self: &Arc<Self>, peer: SocketAddr) -> Option<Arc<OpenConnection>> {
        let address = peer.ip().to_canonical();
        let limits = self.limits;
        let is_proxy = self
            .trusted_proxies
            .iter()
            .any(|range| range.contains(address));
        let mut state = self.state();
        let of_address = state.unknown_of.get(&address).copied().unwrap_or_default();
        let has_room = if of_address >= limits.unknown_per_address && !is_proxy {
            state.drop_idle(Some(address))
        } else if state.unknown >= limits.unknown || state.open.len() >= limits.total {
            state.drop_idle(None)
        } else {
            true
        };
        if !has_room {
            state.dropped += 1;
            return None;
        }
        let number = state.add(address);
        let cut = state.open[&number].cut.clone();
        drop(state);
        Some(Arc::new(OpenConnection {
            connections: self.clone(),
            number,
            cut,
        }))
    }

    /// Closes the unknown connection that has been idle longest, if there is one.
    pub(crate) fn make_room(&self) -> bool {
        self.state().drop_idle(None)
    }

    fn make_known(&self, number: u64) {
        let mut state = self.state();
        let ConnectionTable { open, idle, .. } = &mut *state;
        let Some(entry) = open.get_mut(&number).filter(|entry| !entry.is_known) else {
            return;
        };
        entry.is_known = true;
        if let Some(moment) = entry.idle.take() {
            idle.remove(&moment);
        }
        let address = entry.address;
        state.decrement_unauthenticated(address);
    }

    fn set_idle(&self, number: u64, is_idle: bool) {
        let mut state = self.state();
        state.count += 1;
        let moment = state.count;
        let ConnectionTable { open, idle, .. } = &mut *state;
        let Some(entry) = open.get_mut(&number).filter(|entry| !entry.is_known) else {
            return;
        };
        if let Some(before) = entry.idle.take() {
            idle.remove(&before);
        }
        if is_idle {
            entry.idle = Some(moment);
            idle.insert(moment, number);
        }
    }

    fn state(&self) -> MutexGuard<'_, ConnectionTable> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionTable {
    fn add(&mut self, address: IpAddr) -> u64 {
        self.count += 1;
        let number = self.count;
        let entry = ConnectionEntry {
            address,
            is_known: false,
            idle: Some(number),
            cut: CancellationToken::new(),
        };
        self.open.insert(number, entry);
        self.idle.insert(number, number);
        self.unknown += 1;
        *self.unknown_of.entry(address).or_default() += 1;
        number
    }

    /// Closes the unknown connection that has been idle longest, of this address if one is given.
    fn drop_idle(&mut self, address: Option<IpAddr>) -> bool {
        let open = &self.open;
        let is_one = |number: &u64| match address {
            Some(address) => open[number].address == address,
            None => true,
        };
        let Some(number) = self.idle.values().copied().find(is_one) else {
            return false;
        };
        if let Some(entry) = self.remove(number) {
            entry.cut.cancel();
        }
        self.dropped += 1;
        true
    }

    fn remove(&mut self, number: u64) -> Option<ConnectionEntry> {
        let entry = self.open.remove(&number)?;
        if let Some(idle) = entry.idle {
            self.idle.remove(&idle);
        }
        if !entry.is_known {
            self.decrement_unauthenticated(entry.address);
        }
        Some(entry)
    }

    fn decrement_unauthenticated(&mut self, address: IpAddr) {
        self.unknown = self.unknown.saturating_sub(1);
        if let Some(count) = self.unknown_of.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.unknown_of.remove(&address);
            }
        }
    }
}

impl OpenConnection {
    /// Called when a request starts (`false`) and ends (`true`).
    pub(crate) fn set_idle(&self, is_idle: bool) {
        self.connections.set_idle(self.number, is_idle);
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.connections.state().remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const LIMITS: ConnectionLimits = ConnectionLimits {
        total: 6,
        unknown: 4,
        unknown_per_address: 3,
    };

    fn peer(last: u8) -> SocketAddr {
        ([10, 0, 0, last], 1000).into()
    }

    fn is_cut(connection: &OpenConnection) -> bool {
        connection.cut.is_cancelled()
    }

    #[test]
    fn limits_leave_files_for_jobs() {
        for (files, jobs, total) in [
            (1_024, 16, 384),
            (65_536, 16, 8_192),
            (1_024, 64, 16),
            (64, 1, 16),
            (u64::MAX, usize::MAX, 16),
        ] {
            let limits = ConnectionLimits::of(files, jobs);
            assert_eq!(limits.total, total, "{files} {jobs}");
            assert!(limits.unknown_per_address > 0);
        }
    }

    #[test]
    fn the_longest_idle_of_the_address_makes_room() {
        let connections = ConnectionTracker::new(LIMITS, Vec::new());
        let open: Vec<_> = (0..3)
            .map(|_| connections.enter(peer(1)).unwrap())
            .collect();
        open[0].set_idle(false);
        let other = connections.enter(peer(2)).unwrap();
        let next = connections.enter(peer(1)).unwrap();
        assert!(!is_cut(&open[0]), "it has a request");
        assert!(is_cut(&open[1]), "the longest idle");
        assert!(!is_cut(&open[2]) && !is_cut(&other) && !is_cut(&next));
        // The limit on all unknown connections.
        let third = connections.enter(peer(3)).unwrap();
        assert!(is_cut(&open[2]));
        open[0].set_idle(true);
        let fourth = connections.enter(peer(4)).unwrap();
        assert!(
            is_cut(&other),
            "the one that has just been asked something is not idle for long"
        );
        assert!(!is_cut(&open[0]) && !is_cut(&third) && !is_cut(&fourth));
        assert_eq!(connections.dropped_count(), 3);
        drop((open, other, next, third, fourth));
        assert_eq!(connections.open_count(), 0);
        assert!(connections.state().unknown_of.is_empty());
        assert!(connections.state().idle.is_empty());
    }

    #[test]
    fn a_trusted_proxy_has_no_limit_per_address() {
        let proxy = "10.0.0.1".parse().unwrap();
        let connections = ConnectionTracker::new(LIMITS, vec![proxy]);
        let open: Vec<_> = (0..4)
            .map(|_| connections.enter(peer(1)).unwrap())
            .collect();
        assert!(!open.iter().any(|open| is_cut(open)));
        let fifth = connections.enter(peer(1)).unwrap();
        assert!(is_cut(&open[0]) && !is_cut(&fifth));
    }

    #[test]
    fn known_connections_stay_and_count_only_in_total() {
        let connections = ConnectionTracker::new(LIMITS, Vec::new());
        let known: Vec<_> = (0..6)
            .map(|_| {
                let open = connections.enter(peer(1)).unwrap();
                ConnectionHandle::new(open.clone()).make_known();
                open
            })
            .collect();
        assert!(connections.enter(peer(2)).is_none(), "no room at all");
        assert!(!connections.make_room());
        assert!(known.iter().all(|open| !is_cut(open)));
        known[0].set_idle(true);
        assert!(!connections.make_room(), "idle, but known");
        drop(known);
        assert!(connections.enter(peer(2)).is_some());
    }
}
