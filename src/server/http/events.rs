//! The event stream: `GET /v1/event/stream`.
//!
//! A subscriber is a position in the journal. A client that reads slowly falls behind, and costs no memory:
//! nothing is read for it in the meantime. If the journal no longer has what follows, the stream ends with a line
//! that says so, and the client reads its lists again. A subscriber has a place of its own kind in the limits,
//! and its connection ends with the stream.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Bytes;
use futures_util::stream::{Stream, unfold};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::capabilities::{READ_JOB, READ_VOLUME};
use super::connection_slots::StreamPlace;
use super::credentials::Credentials;
use super::event_payload::payload;
use super::reply::Reply;
use super::request::IncomingRequest;
use crate::acl::Rights;
use crate::cell::{StateCell, Watch};
use crate::error::{RequestError, ServerError};
use crate::event_stream::{Notice, NoticeSubject, Subscription, notices};
use crate::services::Services;
use nomad_csi_claims::state::{Event, State, Table, Topic};
use nomad_csi_model::Namespace;
use nomad_csi_wire::{EventBatchDocument, EventDocument};

/// The longest time between two lines.
const HEARTBEAT: Duration = Duration::from_secs(30);
/// How many events before now a subscriber with index 0 gets.
const HISTORY: u64 = 100;
/// How many events are read at a time.
const EVENTS_PER_READ: usize = 64;
/// How many bytes of lines are collected before they are sent.
const LONG_LINES: usize = 64 << 10;
/// A line without events.
const EMPTY_LINE: &[u8] = b"{}\n";

const TABLES: [Table; 7] = [
    Table::Acl,
    Table::Allocs,
    Table::Claims,
    Table::Jobs,
    Table::Nodes,
    Table::Plugins,
    Table::Volumes,
];

/// Starts a stream.
pub(super) fn stream(request: &IncomingRequest) -> Result<Reply, ServerError> {
    let parameters = &request.parameters;
    let namespace = parameters.namespace_or_default();
    let subscription = Subscription::parse(parameters.all("topic"), namespace)
        .map_err(|error| RequestError::Topic(error.to_string()))?;
    let from: u64 = match parameters.text("index") {
        None => 0,
        Some(text) => text.parse().map_err(|_| RequestError::Index)?,
    };
    let cell = request.services.cell.clone();
    let last = match from {
        0 => cell.index().saturating_sub(HISTORY),
        from => from - 1,
    };
    let place = request.connection.subscribe()?;
    let subscriber = Subscriber {
        watch: cell.watch(TABLES.map(Topic::all).into()),
        cell,
        subscription,
        credentials: request.credentials.clone(),
        services: request.services.clone(),
        stopping: request.services.stopping.clone(),
        last,
        has_read: false,
        is_greeted: false,
        has_ended: false,
        _place: place,
    };
    Ok(Reply::stream(lines(subscriber), false).closing())
}

/// A client that gets events.
struct Subscriber {
    cell: StateCell,
    watch: Watch,
    subscription: Subscription,
    /// Whose stream it is, to look up what it may show.
    credentials: Credentials,
    services: Services,
    stopping: CancellationToken,
    /// The index of the last event that was read.
    last: u64,
    /// True if an event was read, so that a gap is a loss.
    has_read: bool,
    /// True if the first line was sent.
    is_greeted: bool,
    /// True if the last line was sent.
    has_ended: bool,
    _place: StreamPlace,
}

fn lines(subscriber: Subscriber) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
    unfold(subscriber, |mut subscriber| async move {
        let line = subscriber.next().await?;
        Some((Ok(line), subscriber))
    })
}

impl Subscriber {
    /// The next lines; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        if self.has_ended {
            return None;
        }
        if !self.is_greeted {
            self.is_greeted = true;
            return Some(Bytes::from_static(EMPTY_LINE));
        }
        loop {
            // The journal has an event shortly before the state has it.
            let applied = self.cell.index();
            let read = self.cell.read_events(self.last, EVENTS_PER_READ).await;
            let events = match read {
                Ok(mut events) => {
                    events.retain(|(index, _)| *index <= applied);
                    events
                }
                Err(error) => {
                    tracing::warn!(%error, "an event stream ends: the journal cannot be read");
                    return Some(self.end("the journal of the agent cannot be read"));
                }
            };
            let Some((first, _)) = events.first() else {
                match self.wait().await {
                    Wait::Changed => continue,
                    Wait::TimedOut => return Some(Bytes::from_static(EMPTY_LINE)),
                    Wait::Stopped => return None,
                }
            };
            if self.has_read && *first > self.last + 1 {
                return Some(self.end(
                    "the client reads too slowly: the agent no longer has the events that follow; read the lists again and subscribe again",
                ));
            }
            self.has_read = true;
            let Ok(rights) = self.credentials.rights(&self.services) else {
                return Some(self.end("the token of the stream is not valid any more"));
            };
            let lines = self.lines_of(&events, &rights);
            if !lines.is_empty() {
                return Some(lines.into());
            }
        }
    }

    async fn wait(&mut self) -> Wait {
        tokio::select! {
            biased;
            () = self.stopping.cancelled() => Wait::Stopped,
            changed = timeout(HEARTBEAT, self.watch.changed()) => match changed {
                Ok(Ok(())) => Wait::Changed,
                Ok(Err(_)) => Wait::Stopped,
                Err(_) => Wait::TimedOut,
            },
        }
    }

    fn end(&mut self, why: &str) -> Bytes {
        self.has_ended = true;
        line(&EventBatchDocument { error: Some(why.to_owned()), ..EventBatchDocument::default() })
            .into()
    }

    /// One line for each index with an event that the subscriber asked for, until the lines are long.
    fn lines_of(&mut self, events: &[(u64, Event)], rights: &Rights) -> Vec<u8> {
        let mut lines = vec![];
        for (index, event) in events {
            self.last = *index;
            let events = self.cell.read(|state| self.documents(state, *index, event, rights));
            if !events.is_empty() {
                lines.extend(line(&EventBatchDocument {
                    index: *index,
                    events,
                    ..EventBatchDocument::default()
                }));
            }
            if lines.len() >= LONG_LINES {
                break;
            }
        }
        lines
    }

    fn documents(
        &self,
        state: &State,
        index: u64,
        event: &Event,
        rights: &Rights,
    ) -> Vec<EventDocument> {
        let notices = notices(state, &event.kind).into_iter();
        let included =
            notices.filter(|notice| self.subscription.includes(notice) && may_see(rights, notice));
        included
            .map(|notice| EventDocument {
                index,
                payload: payload(state, &notice.subject),
                topic: notice.topic.to_owned(),
                event_type: notice.event_type.to_owned(),
                key: notice.key,
                namespace: notice.namespace,
                filter_keys: (!notice.filter_keys.is_empty()).then_some(notice.filter_keys),
            })
            .collect()
    }
}

/// Returns whether a client may see what happened to an object.
fn may_see(rights: &Rights, notice: &Notice) -> bool {
    let namespace = Namespace::new(&*notice.namespace);
    match notice.subject {
        NoticeSubject::Volume(_) => rights.has_any(&namespace, READ_VOLUME),
        NoticeSubject::Plugin(_) => rights.reads_plugins(),
        NoticeSubject::Job(..) | NoticeSubject::Evaluation(..) | NoticeSubject::Alloc(_) => {
            rights.has_any(&namespace, READ_JOB)
        }
        NoticeSubject::Node(_) => rights.reads_nodes(),
    }
}

/// Why a wait for events ended.
enum Wait {
    Changed,
    TimedOut,
    Stopped,
}

fn line(batch: &EventBatchDocument) -> Vec<u8> {
    let mut line = serde_json::to_vec(batch).unwrap_or_default();
    line.push(b'\n');
    line
}
