//! Readers that wait for a change, kept by what they wait for.
//!
//! A change looks up the readers of its objects and wakes only those, so readers of other objects cost
//! it nothing. For lists it looks up every beginning of the object's name.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use nomad_csi_claims::state::{Subject, Table, Topic};

/// The cell has stopped, so nothing changes any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the agent is stopping")]
pub struct CellStopped;

/// All readers that wait. Clones share their state.
#[derive(Clone, Debug, Default)]
pub(super) struct Watches(Arc<Mutex<Readers>>);

#[derive(Debug, Default)]
struct Readers {
    last_id: u64,
    is_closed: bool,
    of_objects: HashMap<Subject, Waiting>,
    /// By table and group, then by prefix.
    of_lists: HashMap<(Table, Option<String>), BTreeMap<String, Waiting>>,
}

/// Readers of one topic by their IDs.
type Waiting = HashMap<u64, Arc<Notify>>;

/// A reader that waits for changes until it is dropped.
#[derive(Debug)]
pub struct Watch {
    readers: Watches,
    id: u64,
    topics: Vec<Topic>,
    woken: Arc<Notify>,
}

impl Watch {
    /// Waits until one of the topics has changed since the last call, or since the watch began. Several
    /// changes can be one.
    ///
    /// # Errors
    /// If the cell has stopped.
    pub async fn changed(&mut self) -> Result<(), CellStopped> {
        self.woken.notified().await;
        match self.readers.lock().is_closed {
            true => Err(CellStopped),
            false => Ok(()),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut readers = self.readers.lock();
        for topic in &self.topics {
            readers.remove(topic, self.id);
        }
    }
}

impl Watches {
    fn lock(&self) -> MutexGuard<'_, Readers> {
        self.0.lock()
    }

    /// Adds a reader.
    pub(super) fn watch(&self, topics: Vec<Topic>) -> Watch {
        let woken = Arc::new(Notify::new());
        let mut readers = self.lock();
        readers.last_id += 1;
        let id = readers.last_id;
        for topic in &topics {
            readers.of(topic).insert(id, woken.clone());
        }
        if readers.is_closed {
            woken.notify_one();
        }
        Watch { readers: self.clone(), id, topics, woken }
    }

    /// Wakes the readers of these objects.
    pub(super) fn wake<'a>(&self, changed: impl IntoIterator<Item = &'a Subject>) {
        let readers = self.lock();
        for subject in changed {
            readers.wake(subject);
        }
    }

    /// Wakes all readers.
    pub(super) fn wake_all(&self) {
        self.lock().wake_all();
    }

    /// Wakes all readers for the last time.
    pub(super) fn close(&self) {
        let mut readers = self.lock();
        readers.is_closed = true;
        readers.wake_all();
    }
}

impl Readers {
    fn wake_all(&self) {
        let of_lists = self.of_lists.values().flat_map(BTreeMap::values);
        self.of_objects.values().chain(of_lists).for_each(wake_all);
    }

    fn of(&mut self, topic: &Topic) -> &mut Waiting {
        match topic {
            Topic::Object(subject) => self.of_objects.entry(subject.clone()).or_default(),
            Topic::List(list) => {
                let place = (list.table, list.group.clone());
                let by_prefix = self.of_lists.entry(place).or_default();
                by_prefix.entry(list.prefix.clone()).or_default()
            }
        }
    }

    fn wake(&self, subject: &Subject) {
        self.of_objects.get(subject).into_iter().for_each(wake_all);
        let (table, group, name) = subject.place();
        let places = [(table, None), (table, Some(group.to_owned()))];
        for by_prefix in places.iter().filter_map(|place| self.of_lists.get(place)) {
            let ends = name.char_indices().map(|(at, _)| at).chain([name.len()]);
            let beginnings = ends.map(|end| &name[..end]);
            let waiting = beginnings.filter_map(|prefix| by_prefix.get(prefix));
            waiting.for_each(wake_all);
        }
    }

    fn remove(&mut self, topic: &Topic, id: u64) {
        let waiting = self.of(topic);
        waiting.remove(&id);
        if !waiting.is_empty() {
            return;
        }
        match topic {
            Topic::Object(subject) => drop(self.of_objects.remove(subject)),
            Topic::List(list) => {
                let place = (list.table, list.group.clone());
                if let Some(by_prefix) = self.of_lists.get_mut(&place) {
                    by_prefix.remove(&list.prefix);
                    if by_prefix.is_empty() {
                        self.of_lists.remove(&place);
                    }
                }
            }
        }
    }
}

fn wake_all(waiting: &Waiting) {
    waiting.values().for_each(|woken| woken.notify_one());
}

#[cfg(test)]
mod tests;
