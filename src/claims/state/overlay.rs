//! [`Overlay`]: changes on top of a state that stays as it is.
//!
//! An overlay has copies of only the subjects that its changes touch, so a change costs the same in a
//! state of any size. A change succeeds completely or leaves the overlay as it was, and each change
//! sees the ones before it.

use std::collections::HashSet;

use super::bound_controller::ControllerCall;
use super::event::{EventKind, Subject};
use super::snapshot::StateNumbers;
use super::subjects::{claims_of, subjects, with_registrations};
use super::tables::State;
use nomad_csi_model::{AllocId, RemoteVolume};

/// A state and changes to it that only the overlay has.
pub struct Overlay<'a> {
    base: &'a State,
    /// The numbers of the changed state, and the records of the touched subjects.
    changed: State,
    touched: HashSet<Subject>,
}

impl<'a> Overlay<'a> {
    /// Creates an overlay without changes.
    pub fn new(base: &'a State) -> Self {
        Self { base, changed: without_records(base), touched: HashSet::new() }
    }

    /// Returns every object that the event reads or changes.
    pub fn subjects_of(&self, kind: &EventKind) -> Vec<Subject> {
        subjects(&[self.base, &self.changed], kind)
    }

    /// Returns every object that decides which steps are due for a volume.
    pub fn subjects_of_steps(&self, volume: &RemoteVolume) -> Vec<Subject> {
        let losses = self.base.losses.keys().chain(self.changed.losses.keys());
        let nodes = losses.cloned().map(Subject::Node);
        let own = [Subject::Claims(volume.clone()), Subject::Plugin(volume.plugin_id.clone())];
        nodes.chain(own).collect()
    }

    /// Returns every object that decides which controller a call may go to.
    pub fn subjects_of_controller(&self, call: &ControllerCall) -> Vec<Subject> {
        let mut all = match call {
            ControllerCall::Create { key, .. } => vec![Subject::Volume(key.clone())],
            ControllerCall::OfVolume { volume, .. } => self.subjects_of_data(volume),
        };
        all.push(Subject::Plugin(call.plugin().clone()));
        all
    }

    /// Returns the claims of every volume that an allocation uses.
    pub fn subjects_of_claims(&self, alloc: &AllocId) -> Vec<Subject> {
        claims_of(&[self.base, &self.changed], alloc).collect()
    }

    /// Returns every volume that is registered with this data.
    pub fn subjects_of_data(&self, data: &RemoteVolume) -> Vec<Subject> {
        with_registrations(&[self.base, &self.changed], data)
    }

    /// Returns every object that a change so far named.
    pub fn touched(&self) -> &HashSet<Subject> {
        &self.touched
    }

    /// Performs a change on a state that contains only these subjects. The overlay keeps it if it
    /// succeeds.
    ///
    /// # Errors
    /// Returns the error of `change`. The overlay is then as it was before.
    pub fn attempt<T, E>(
        &mut self,
        subjects: HashSet<Subject>,
        change: impl FnOnce(&mut State) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut attempt = without_records(&self.changed);
        for subject in &subjects {
            copy_subject(&mut attempt, self.latest(subject), subject);
        }
        let done = change(&mut attempt)?;
        self.changed.set_numbers(&StateNumbers::from(&attempt));
        for subject in &subjects {
            copy_subject(&mut self.changed, &attempt, subject);
        }
        self.touched.extend(subjects);
        Ok(done)
    }

    fn latest(&self, subject: &Subject) -> &State {
        match self.touched.contains(subject) {
            true => &self.changed,
            false => self.base,
        }
    }
}

/// Returns a state with the numbers of this one, and without its records.
fn without_records(state: &State) -> State {
    let mut copy = State::default();
    copy.set_numbers(&StateNumbers::from(state));
    copy
}

/// Copies the record of a subject, or its absence.
fn copy_subject(to: &mut State, from: &State, subject: &Subject) {
    match from.stored(subject) {
        Some(record) => to.store(record),
        None => to.discard(subject),
    }
}

#[cfg(test)]
mod tests;
