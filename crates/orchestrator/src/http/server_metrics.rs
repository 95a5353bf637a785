//! Prometheus metrics of one server. There is no global recorder.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use axum::http::{Method, StatusCode};
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Label, Level, Metadata, Recorder, Unit};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusRecorder};

use crate::app::App;
use crate::http::connections::ConnectionTracker;

const METRIC_METADATA: Metadata<'_> = Metadata::new(module_path!(), Level::INFO, None);

const DURATION_BUCKETS: [f64; 12] = [
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0,
];

/// Number of requests between runs of the recorder's upkeep.
const UPKEEP_INTERVAL_REQUESTS: u64 = 4_096;

/// Histograms of one route by method and status.
type Durations = Vec<(Method, StatusCode, Histogram)>;

pub(crate) struct ServerMetrics {
    recorder: PrometheusRecorder,
    durations: RwLock<HashMap<String, Durations>>,
    answered: AtomicU64,
    readers: Gauge,
    store_errors: Counter,
    scheduled: Counter,
    queued: Gauge,
    running: Gauge,
    parked: Gauge,
    machines: Gauge,
    disk_free: Gauge,
    disk_floor: Gauge,
    connections: Gauge,
    connections_dropped: Counter,
    memory: Gauge,
}

impl fmt::Debug for ServerMetrics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Meters").finish_non_exhaustive()
    }
}

impl ServerMetrics {
    pub(crate) fn new() -> Self {
        let recorder = PrometheusBuilder::new()
            .set_buckets(&DURATION_BUCKETS)
            .expect("the list of buckets is not empty")
            .build_recorder();
        let gauge = |name: &'static str, labels: Vec<Label>, what: &'static str| {
            recorder.describe_gauge(KeyName::from_const_str(name), None, what.into());
            recorder.register_gauge(&Key::from_parts(name, labels), &METRIC_METADATA)
        };
        let counter = |name: &'static str, what: &'static str| {
            recorder.describe_counter(KeyName::from_const_str(name), None, what.into());
            recorder.register_counter(&Key::from_name(name), &METRIC_METADATA)
        };
        let status = |status: &'static str| vec![Label::new("status", status)];
        let jobs = "Jobs that have not ended.";
        let queued = gauge("hotcell_jobs", status("pending"), jobs);
        let running = gauge("hotcell_jobs", status("running"), jobs);
        let parked = gauge(
            "hotcell_jobs_parked",
            Vec::new(),
            "Pending jobs that wait because something they need failed.",
        );
        recorder.describe_gauge(
            KeyName::from_const_str(PROVIDER_UP),
            None,
            "1 if jobs of this model provider are claimed, 0 while it is failing.".into(),
        );
        let readers = gauge("hotcell_event_readers", Vec::new(), "Open event streams.");
        let machines = gauge(
            "hotcell_machines_waiting",
            Vec::new(),
            "Virtual machines that wait for a job.",
        );
        let disk_free = gauge(
            "hotcell_disk_free_bytes",
            Vec::new(),
            "What is free on the disk of the data folder.",
        );
        let disk_floor = gauge(
            "hotcell_disk_floor_bytes",
            Vec::new(),
            "What must be free for a job to be started.",
        );
        let connections = gauge("hotcell_connections", Vec::new(), "Open connections.");
        let connections_dropped = counter(
            "hotcell_connections_dropped_total",
            "Connections without a valid key that were closed or refused to make room.",
        );
        let memory = gauge(
            "process_resident_memory_bytes",
            Vec::new(),
            "Memory of the server itself.",
        );
        let store_errors = counter(
            "hotcell_store_errors_total",
            "Requests that failed because of the store.",
        );
        let scheduled = counter("hotcell_schedules_total", "Jobs that were taken.");
        recorder.describe_histogram(
            KeyName::from_const_str(REQUEST_DURATION),
            Some(Unit::Seconds),
            "From a request's head to its answer's.".into(),
        );
        Self {
            durations: RwLock::default(),
            answered: AtomicU64::new(0),
            readers,
            store_errors,
            scheduled,
            queued,
            running,
            parked,
            machines,
            disk_free,
            disk_floor,
            connections,
            connections_dropped,
            memory,
            recorder,
        }
    }

    pub(crate) fn readers(&self) -> Gauge {
        self.readers.clone()
    }

    pub(crate) fn record_store_error(&self) {
        self.store_errors.increment(1);
    }

    pub(crate) fn scheduled(&self) {
        self.scheduled.increment(1);
    }

    /// Records the duration of a request. Requests without a route are counted together.
    pub(crate) fn answered(
        &self,
        route: &str,
        method: &Method,
        status: StatusCode,
        took: Duration,
    ) {
        let known = {
            let durations = self
                .durations
                .read()
                .unwrap_or_else(PoisonError::into_inner);
            durations
                .get(route)
                .and_then(|rows| find(rows, method, status))
        };
        let histogram = known.unwrap_or_else(|| self.add(route, method, status));
        histogram.record(took.as_secs_f64());
        // Samples must not accumulate when `/metrics` is never read.
        if self.answered.fetch_add(1, Ordering::Relaxed) % UPKEEP_INTERVAL_REQUESTS
            == UPKEEP_INTERVAL_REQUESTS - 1
        {
            self.recorder.handle().run_upkeep();
        }
    }

    fn add(&self, route: &str, method: &Method, status: StatusCode) -> Histogram {
        let mut durations = self
            .durations
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let rows = durations.entry(route.to_owned()).or_default();
        if let Some(known) = find(rows, method, status) {
            return known;
        }
        // Clients can send arbitrary methods.
        let name = match method.as_str() {
            "GET" | "HEAD" | "POST" | "DELETE" | "OPTIONS" | "PUT" | "PATCH" => method.to_string(),
            _ => "other".to_owned(),
        };
        let labels = vec![
            Label::new("route", route.to_owned()),
            Label::new("method", name.clone()),
            Label::new("status", status.as_str().to_owned()),
        ];
        let key = Key::from_parts(REQUEST_DURATION, labels);
        let histogram = self.recorder.register_histogram(&key, &METRIC_METADATA);
        if name != "other" {
            rows.push((method.clone(), status, histogram.clone()));
        }
        histogram
    }

    pub(crate) fn render(&self, app: &App, connections: &ConnectionTracker, parked: u64) -> String {
        let work = app.work();
        self.queued.set(work.queued as f64);
        self.running.set(work.running as f64);
        self.parked.set(parked as f64);
        for (provider, is_up) in app.providers() {
            let key = Key::from_parts(PROVIDER_UP, vec![Label::new("provider", provider)]);
            let gauge = self.recorder.register_gauge(&key, &METRIC_METADATA);
            gauge.set(f64::from(u8::from(is_up)));
        }
        let (free, floor) = app.disk();
        self.disk_free.set(free as f64);
        self.disk_floor.set(floor as f64);
        self.connections.set(connections.open_count() as f64);
        let dropped = connections.dropped_count();
        self.connections_dropped.absolute(dropped);
        self.machines.set(app.machines_waiting() as f64);
        if let Some(bytes) = resident_memory() {
            self.memory.set(bytes as f64);
        }
        self.recorder.handle().render()
    }
}

const PROVIDER_UP: &str = "hotcell_provider_up";
const REQUEST_DURATION: &str = "hotcell_request_duration_seconds";

fn find(rows: &Durations, method: &Method, status: StatusCode) -> Option<Histogram> {
    rows.iter()
        .find(|(known, of, _)| known == method && *of == status)
        .map(|(_, _, histogram)| histogram.clone())
}

/// Resident memory of this process in bytes.
fn resident_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1_024)
}
