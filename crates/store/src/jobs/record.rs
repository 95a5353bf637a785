//! Converts jobs' records to rows and back.
//!
//! A row that this release cannot decode is an error that names the job. It is never skipped.

use jiff::Timestamp;
use protocol::job::{Job, JobId, JobRequest, JobState, Status};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;
use uuid::Uuid;

use crate::error::StoreError;
use crate::rows::{nanoseconds, session_id, time_of, unsigned};

/// The columns of a job, in the order in which [`job`] reads them.
macro_rules! job_columns {
    () => {
        "id, owner, epoch, revision, created, started, ended, ran_millis, session, messages, \
         crashes, state, spending, artifact, request, task, result, parked"
    };
}
pub(super) use job_columns;

/// The parts of a job that are stored as JSON, and its status.
#[derive(Debug)]
pub(super) struct JobColumns {
    pub(super) status: &'static str,
    pub(super) state: String,
    pub(super) spending: String,
    pub(super) artifact: Option<String>,
    pub(super) parked: Option<String>,
}

impl JobColumns {
    pub(super) fn of(job: &Job) -> Result<Self, StoreError> {
        Ok(Self {
            status: status(job.state.status()),
            state: encode(job.id, &job.state)?,
            spending: encode(job.id, &job.spending)?,
            artifact: encode_optional(job.id, job.artifact.as_ref())?,
            parked: encode_optional(job.id, job.parked.as_ref())?,
        })
    }
}

/// Encodes the request without its task, which has its own column.
pub(super) fn request(id: JobId, request: &JobRequest) -> Result<String, StoreError> {
    let request = JobRequest {
        task: String::new(),
        ..request.clone()
    };
    encode(id, &request)
}

fn encode(job: JobId, value: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|source| StoreError::EncodeJob { job, source })
}

fn encode_optional(
    job: JobId,
    value: Option<&impl Serialize>,
) -> Result<Option<String>, StoreError> {
    value.map(|value| encode(job, value)).transpose()
}

pub(super) fn status(status: Status) -> &'static str {
    match status {
        Status::Pending => "pending",
        Status::Running => "running",
        Status::Complete => "complete",
        Status::Error => "error",
    }
}

/// The 16 bytes of an id, for binding.
pub(super) fn bytes(id: &Uuid) -> &[u8] {
    id.as_bytes()
}

pub(super) fn read_uuid(row: &SqliteRow, column: usize) -> Result<Uuid, sqlx::Error> {
    let bytes: &[u8] = row.try_get(column)?;
    Uuid::from_slice(bytes).map_err(|error| sqlx::Error::Decode(Box::new(error)))
}

pub(super) fn time(time: Option<Timestamp>) -> Option<i64> {
    time.map(nanoseconds)
}

pub(super) fn job(what: &'static str, row: &SqliteRow) -> Result<Job, StoreError> {
    let id = JobId(read_uuid(row, 0).map_err(StoreError::database(what))?);
    let state: JobState = decode(id, row, 11)?;
    let request: JobRequest = decode(id, row, 14)?;
    let session = match column(id, row, 8)? {
        Some(name) => Some(session_id(name).map_err(damaged_error(id))?),
        None => None,
    };
    let optional_time = |place| Ok(column::<Option<i64>>(id, row, place)?.map(time_of));
    Ok(Job {
        id,
        owner: column(id, row, 1)?,
        request: JobRequest {
            task: column(id, row, 15)?,
            ..request
        },
        state,
        epoch: column(id, row, 2)?,
        revision: unsigned(column(id, row, 3)?),
        created: time_of(column(id, row, 4)?),
        started: optional_time(5)?,
        ended: optional_time(6)?,
        ran_millis: unsigned(column(id, row, 7)?),
        session,
        messages: column(id, row, 9)?,
        crashes: column(id, row, 10)?,
        answer: column(id, row, 16)?,
        artifact: decode_optional(id, row, 13)?,
        parked: decode_optional(id, row, 17)?,
        spending: decode(id, row, 12)?,
    })
}

fn column<'r, T>(job: JobId, row: &'r SqliteRow, place: usize) -> Result<T, StoreError>
where
    T: sqlx::Decode<'r, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite>,
{
    row.try_get(place).map_err(damaged_error(job))
}

fn decode<T: DeserializeOwned>(job: JobId, row: &SqliteRow, place: usize) -> Result<T, StoreError> {
    // Bytes, because damaged JSON need not be UTF-8.
    let json: &[u8] = column(job, row, place)?;
    serde_json::from_slice(json).map_err(|source| {
        if is_newer(&source) {
            StoreError::NewerJob { job, source }
        } else {
            damaged_error(job)(source)
        }
    })
}

fn decode_optional<T: DeserializeOwned>(
    job: JobId,
    row: &SqliteRow,
    place: usize,
) -> Result<Option<T>, StoreError> {
    match column::<Option<&[u8]>>(job, row, place)? {
        Some(_) => decode(job, row, place).map(Some),
        None => Ok(None),
    }
}

/// Whether valid JSON has a field or a variant that this release does not know.
fn is_newer(error: &serde_json::Error) -> bool {
    let text = error.to_string();
    error.is_data() && (text.starts_with("unknown variant") || text.starts_with("unknown field"))
}

fn damaged_error<E>(job: JobId) -> impl FnOnce(E) -> StoreError
where
    E: std::error::Error + Send + Sync + 'static,
{
    move |source| StoreError::DamagedJob {
        job,
        source: Box::new(source),
    }
}
