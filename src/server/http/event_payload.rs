//! The object of an event, as readers of the object see it: without secrets and environments.
//!
//! The payload is the object as it is when the line is sent, which may be newer than the event. An object
//! that does not exist any more has only its ID.

use serde_json::{Value, json};

use super::job_documents::{PlacedAlloc, evaluation_document, job_document};
use super::{nodes, plugins, volume_documents};
use crate::event_stream::NoticeSubject;
use nomad_csi_claims::state::{State, plugin, volume};
use nomad_csi_wire::{AllocationDocument, JobDocument};

/// Returns the payload of a notice.
pub(super) fn payload(state: &State, subject: &NoticeSubject) -> Value {
    match subject {
        NoticeSubject::Volume(key) => match volume(state, key) {
            Some(view) => json!({"Volume": volume_documents::volume_document(&view)}),
            None => json!({"Volume": {"ID": key.id.as_str(), "Namespace": key.namespace.as_str()}}),
        },
        NoticeSubject::Plugin(id) => match plugin(state, id) {
            Some(view) => json!({"Plugin": plugins::document(&view)}),
            None => json!({"Plugin": {"ID": id.as_str()}}),
        },
        NoticeSubject::Job(key, is_removed) => {
            let job = state.job(key).map(|record| job_document(state, record));
            let job = job.unwrap_or_else(|| JobDocument {
                id: key.id.to_string(),
                namespace: key.namespace.to_string(),
                ..JobDocument::default()
            });
            json!({"Job": job, "Deleted": is_removed})
        }
        NoticeSubject::Evaluation(key, id) => {
            let job = state.job(key);
            let found = job.and_then(|job| Some((job, job.evaluation(id)?)));
            match found {
                Some((job, record)) => {
                    json!({"Evaluation": evaluation_document(state, job, record, false)})
                }
                None => json!({"Evaluation": {"ID": id.as_str(), "JobID": key.id.as_str()}}),
            }
        }
        NoticeSubject::Alloc(id) => {
            let record = state.alloc(id);
            let placed = record.and_then(|record| Some((record, record.placement.as_deref()?)));
            match placed {
                Some((record, placement)) => {
                    let alloc = PlacedAlloc { id, record, placement };
                    let document = AllocationDocument { job: None, ..alloc.document(state) };
                    json!({"Allocation": document, "Timeout": false, "TimeoutReason": ""})
                }
                None => json!({"Allocation": {"ID": id.as_str()}}),
            }
        }
        NoticeSubject::Node(id) => match state.node(id) {
            Some(node) => json!({"Node": nodes::document(state, node)}),
            None => json!({"Node": {"ID": id.as_str()}}),
        },
    }
}
