//! Decodes topology requests in every shape that Nomad accepts, without losing any part.
//!
//! Nomad keeps only the last of two requests, the first of two `required` blocks, and the first
//! element of some JSON shapes. This file keeps all of them, in the order of the file. A topology
//! without segments is an error, because the volume could then be created anywhere.

use std::collections::BTreeMap;

use super::reader::{Reader, ScalarConversion};
use crate::schema;
use crate::tree::{Entry, Object, Value};
use crate::value_reader::ValueReader as _;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Span};
use nomad_csi_model::{Topology, TopologyRequest};

impl Reader<'_> {
    pub(super) fn topology_request(&mut self, entries: &[&Entry<'_>]) -> Option<TopologyRequest> {
        self.warn_of_repetition(entries);
        let mut request: Option<TopologyRequest> = None;
        for entry in entries {
            self.refuse_labels(entry);
            let Some(object) = self.object_of(entry) else {
                continue;
            };
            let request = request.get_or_insert_default();
            let [required, preferred] =
                self.entries_of(object, "`topology_request`", schema::TOPOLOGY_REQUEST);
            self.topologies(&required, &mut request.required);
            self.topologies(&preferred, &mut request.preferred);
        }
        request
    }

    /// Decodes the topologies of all `required` or all `preferred` blocks.
    fn topologies(&mut self, entries: &[&Entry<'_>], topologies: &mut Vec<Topology>) {
        for entry in entries {
            self.refuse_labels(entry);
            let Some(object) = self.object_of(entry) else {
                continue;
            };
            for inner in object.entries.iter() {
                match &*inner.key.text {
                    "topology" => {
                        self.refuse_labels(inner);
                        if let Some(object) = self.object_of(inner) {
                            self.topology(inner.key.span, object, topologies);
                        }
                    }
                    "segments" => self.segments(inner, topologies),
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

    /// Decodes one `topology` block; each of its `segments` blocks is a topology.
    fn topology(&mut self, span: Span, object: &Object<'_>, topologies: &mut Vec<Topology>) {
        let mut has_segments = false;
        for inner in &object.entries {
            match &*inner.key.text {
                "segments" => {
                    has_segments = true;
                    self.segments(inner, topologies);
                }
                _ if self.is_comment(inner) => {}
                _ => {
                    has_segments = true;
                    self.unknown_in(inner, "`topology`", &["segments"]);
                }
            }
        }
        if !has_segments {
            self.empty_topology(span);
        }
    }

    fn segments(&mut self, entry: &Entry<'_>, topologies: &mut Vec<Topology>) {
        self.refuse_labels(entry);
        let Some(object) = self.object_of(entry) else {
            if !matches!(entry.value.value, Value::Invalid) {
                self.empty_topology(entry.key.span);
            }
            return;
        };
        if object.entries.is_empty() {
            self.empty_topology(entry.key.span);
            return;
        }
        let mut segments = BTreeMap::new();
        for pair in &object.entries {
            self.refuse_labels(pair);
            let Some(text) = self.text(&pair.key.text, &pair.value, ScalarConversion::AsWritten)
            else {
                continue;
            };
            if segments.insert(pair.key.text.to_string(), text).is_some() {
                let message = format!("duplicate key `{}` in `segments`", pair.key.text);
                self.error(Code::SpecDuplicateField, message, pair.key.span);
            }
        }
        topologies.push(Topology { segments });
    }

    fn empty_topology(&mut self, span: Span) {
        self.diagnostics.push(
            Diagnostic::error(Code::SpecEmptyTopology, "a topology has no segments")
                .label(span, "add a segment, or remove this"),
        );
    }
}
