//! Topology requests, in every shape of `nomad-http-api` 5.6, losing nothing.
//!
//! Nomad keeps only the last of two requests, only the first of two `required` blocks, only the first
//! element of the shape that its own JSON example shows, and nothing at all of an object in place of
//! a list. Here all of them are kept, in the order of the file; a place that names no segment is an
//! error, because a volume without it would be made just anywhere.

use std::collections::BTreeMap;

use super::reader::{Reader, Reading};
use crate::diagnostic::{Code, Diagnostic, Span};
use crate::model::{Topology, TopologyRequest};
use crate::spec::schema;
use crate::spec::tree::{Entry, Object, Value};

impl Reader<'_> {
    pub(super) fn topology_request(&mut self, entries: &[&Entry<'_>]) -> Option<TopologyRequest> {
        self.warn_of_repetition(entries);
        let mut request: Option<TopologyRequest> = None;
        for entry in entries {
            self.refuse_labels(entry);
            let Some(object) = self.block(entry) else {
                continue;
            };
            let request = request.get_or_insert_default();
            let [required, preferred] =
                self.known(object, "`topology_request`", schema::TOPOLOGY_REQUEST);
            self.places(&required, &mut request.required);
            self.places(&preferred, &mut request.preferred);
        }
        request
    }

    /// The places of all `required` or all `preferred` blocks.
    fn places(&mut self, entries: &[&Entry<'_>], places: &mut Vec<Topology>) {
        for entry in entries {
            self.refuse_labels(entry);
            let Some(object) = self.block(entry) else {
                continue;
            };
            for inner in object.entries.iter() {
                match &*inner.key.text {
                    "topology" => {
                        self.refuse_labels(inner);
                        if let Some(object) = self.block(inner) {
                            self.topology(inner.key.span, object, places);
                        }
                    }
                    "segments" => self.segments(inner, places),
                    _ if self.is_comment(inner) => {}
                    _ => self.unknown_in(
                        inner,
                        &format!("`{}`", entry.key.text),
                        &["topology", "segments"],
                    ),
                }
            }
        }
    }

    /// One `topology` block: each of its `segments` is a place of its own.
    fn topology(&mut self, span: Span, object: &Object<'_>, places: &mut Vec<Topology>) {
        let mut has_segments = false;
        for inner in &object.entries {
            match &*inner.key.text {
                "segments" => {
                    has_segments = true;
                    self.segments(inner, places);
                }
                _ if self.is_comment(inner) => {}
                _ => {
                    has_segments = true;
                    self.unknown_in(inner, "`topology`", &["segments"]);
                }
            }
        }
        if !has_segments {
            self.empty(span);
        }
    }

    fn segments(&mut self, entry: &Entry<'_>, places: &mut Vec<Topology>) {
        self.refuse_labels(entry);
        let Some(object) = self.block(entry) else {
            if !matches!(entry.value.value, Value::Broken) {
                self.empty(entry.key.span);
            }
            return;
        };
        if object.entries.is_empty() {
            self.empty(entry.key.span);
            return;
        }
        let mut segments = BTreeMap::new();
        for pair in &object.entries {
            self.refuse_labels(pair);
            let Some(text) = self.text(&pair.key.text, &pair.value, Reading::AsWritten) else {
                continue;
            };
            if segments.insert(pair.key.text.to_string(), text).is_some() {
                let message = format!("`{}` stands twice in `segments`", pair.key.text);
                self.error(Code::SpecDuplicateField, message, pair.key.span);
            }
        }
        places.push(Topology { segments });
    }

    fn empty(&mut self, span: Span) {
        self.diagnostics.push(
            Diagnostic::error(Code::SpecEmptyTopology, "a topology names no segment")
                .label(span, "name at least one segment, or remove this"),
        );
    }
}
