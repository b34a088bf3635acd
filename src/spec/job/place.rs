//! Places in a job, and where they are in its file.

use std::collections::{BTreeMap, BTreeSet};

use nomad_csi_model::diagnostic::Span;

/// A place in a job: the job, a group, a task, a block of one of them, or a field.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobPlace {
    pub(super) group: Option<usize>,
    pub(super) task: Option<usize>,
    pub(super) block: Option<(&'static str, String)>,
    pub(super) field: Option<&'static str>,
}

impl JobPlace {
    /// Returns the place of a group, by its position.
    pub fn group(group: usize) -> Self {
        Self { group: Some(group), ..Self::default() }
    }

    /// Returns the place of a task in this group, by its position.
    pub(super) fn task(&self, task: usize) -> Self {
        Self { task: Some(task), ..self.clone() }
    }

    /// Returns the place of a block in this job, group or task, by its name or position.
    #[must_use]
    pub fn block(&self, kind: &'static str, name: &str) -> Self {
        Self { block: Some((kind, name.to_owned())), ..self.clone() }
    }

    /// Returns the place of a field.
    #[must_use]
    pub fn field(&self, field: &'static str) -> Self {
        Self { field: Some(field), ..self.clone() }
    }

    /// Returns the place that contains this one.
    fn parent(mut self) -> Option<Self> {
        let is_inner = self.field.take().is_some()
            || self.block.take().is_some()
            || self.task.take().is_some()
            || self.group.take().is_some();
        is_inner.then_some(self)
    }
}

/// Where the places of a job are in its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobPlaces {
    job: Span,
    spans: BTreeMap<JobPlace, Span>,
    /// Places with an unreadable value, which a diagnostic reports.
    unreadable: BTreeSet<JobPlace>,
}

impl JobPlaces {
    /// Returns the places of a job whose parts have no positions of their own.
    pub fn new(job: Span) -> Self {
        Self { job, spans: BTreeMap::new(), unreadable: BTreeSet::new() }
    }

    /// Returns the position of the job.
    pub fn job(&self) -> Span {
        self.job
    }

    pub(super) fn insert(&mut self, place: JobPlace, span: Span) {
        self.spans.entry(place).or_insert(span);
    }

    pub(super) fn mark_unreadable(&mut self, place: JobPlace) {
        self.unreadable.insert(place);
    }

    /// Returns whether the value of a place is unreadable, so rules about it say nothing new.
    pub(super) fn is_unreadable(&self, place: &JobPlace) -> bool {
        self.unreadable.contains(place)
    }

    /// Returns the position of a place, or of the closest place that contains it.
    pub fn span(&self, place: &JobPlace) -> Span {
        let containing = std::iter::successors(Some(place.clone()), |inner| inner.clone().parent());
        let mut found = containing.filter_map(|place| self.spans.get(&place).copied());
        found.next().unwrap_or(self.job)
    }
}
