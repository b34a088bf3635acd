//! The JSON of volumes in lists, kept from one list to the next.
//!
//! A text is made when a list first needs it. It is used again while the volume's record and claims are the same
//! objects, and the status of its plugin is equal. A change replaces these objects, so a text is never stale, and
//! no event has to remove it. Texts of records that are gone are removed when a quarter more is kept than lives.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use axum::body::Bytes;
use parking_lot::RwLock;

use super::volume_documents::volume_stub;
use nomad_csi_claims::state::{ClaimsRecord, PluginStatus, VolumeRecord, VolumeView};

/// How many volumes are looked up under one lock. What is missing is encoded without a lock.
const VOLUMES_PER_LOCK: usize = 256;
/// So many texts are kept before the first search for those of records that are gone.
const FEW: usize = 1024;

/// The JSON of one volume without spaces, and a comma.
#[derive(Clone, Debug)]
pub(super) struct Text {
    /// No other text has it, also if its bytes are the same.
    pub(super) number: u64,
    pub(super) bytes: Bytes,
}

/// The text of one volume, and what it was made from.
#[derive(Debug)]
struct KeptStub {
    /// Keeps the address from being used again.
    record: Weak<VolumeRecord>,
    claims: Option<Weak<ClaimsRecord>>,
    plugin: Arc<PluginStatus>,
    text: Text,
}

impl KeptStub {
    fn is_of(&self, view: &VolumeView) -> bool {
        let has_same_claims = match (&self.claims, &view.claims) {
            (None, None) => true,
            (Some(kept), Some(now)) => Weak::as_ptr(kept) == Arc::as_ptr(now),
            (Some(_), None) | (None, Some(_)) => false,
        };
        has_same_claims && self.plugin == view.plugin
    }
}

/// The kept texts.
#[derive(Debug, Default)]
pub(super) struct KeptStubs {
    table: RwLock<Table>,
    next_number: AtomicU64,
}

#[derive(Debug, Default)]
struct Table {
    /// By the address of the volume's record.
    stubs: HashMap<usize, KeptStub>,
    /// The statuses that `stubs` share.
    plugins: Vec<Arc<PluginStatus>>,
    /// How many texts there were after the last search for those of records that are gone.
    lived: usize,
}

fn address(view: &VolumeView) -> usize {
    Arc::as_ptr(&view.record).addr()
}

impl KeptStubs {
    /// Returns the texts of these volumes.
    ///
    /// # Errors
    /// If a volume cannot be encoded.
    pub(super) fn texts(&self, volumes: &[VolumeView]) -> serde_json::Result<Vec<Text>> {
        let mut texts = Vec::with_capacity(volumes.len());
        for part in volumes.chunks(VOLUMES_PER_LOCK) {
            let known = self.known(part);
            let mut made = vec![];
            for (view, known) in part.iter().zip(known) {
                let text = match known {
                    Some(text) => text,
                    None => {
                        let text = self.make(view)?;
                        made.push((view, text.clone()));
                        text
                    }
                };
                texts.push(text);
            }
            self.keep(made);
        }
        Ok(texts)
    }

    fn make(&self, view: &VolumeView) -> serde_json::Result<Text> {
        let mut json = serde_json::to_vec(&volume_stub(view))?;
        json.push(b',');
        Ok(Text {
            number: self.next_number.fetch_add(1, Ordering::Relaxed),
            bytes: Bytes::from(json.into_boxed_slice()),
        })
    }

    /// Returns the text of each volume that has one.
    fn known(&self, volumes: &[VolumeView]) -> Vec<Option<Text>> {
        let table = self.table.read();
        let known = volumes.iter().map(|view| {
            let kept = table.stubs.get(&address(view))?;
            kept.is_of(view).then(|| kept.text.clone())
        });
        known.collect()
    }

    fn keep(&self, made: Vec<(&VolumeView, Text)>) {
        if made.is_empty() {
            return;
        }
        let mut table = self.table.write();
        for (view, text) in made {
            let stub = KeptStub {
                record: Arc::downgrade(&view.record),
                claims: view.claims.as_ref().map(Arc::downgrade),
                plugin: table.shared_status(&view.plugin),
                text,
            };
            table.stubs.insert(address(view), stub);
        }
        table.remove_gone();
    }
}

impl Table {
    fn shared_status(&mut self, status: &Arc<PluginStatus>) -> Arc<PluginStatus> {
        if let Some(known) = self.plugins.iter().find(|known| *known == status) {
            return known.clone();
        }
        self.plugins.push(status.clone());
        status.clone()
    }

    fn remove_gone(&mut self) {
        if self.stubs.len() < self.lived + self.lived / 4 + FEW {
            return;
        }
        self.stubs.retain(|_, stub| stub.record.strong_count() > 0);
        self.stubs.shrink_to_fit();
        self.plugins.retain(|status| Arc::strong_count(status) > 1);
        self.lived = self.stubs.len();
    }
}

#[cfg(test)]
mod tests {
    use nomad_csi_testing::few_or_many;
    use proptest::prelude::*;

    use super::*;
    use nomad_csi_claims::state::samples::History;
    use nomad_csi_claims::state::{State, VolumeFilter, volumes};
    use nomad_csi_model::Namespace;

    fn views(state: &State) -> Vec<VolumeView> {
        let filter = VolumeFilter {
            among: None,
            namespace: Namespace::new(Namespace::ALL),
            prefix: String::new(),
            plugin: None,
            node: None,
        };
        volumes(state, &filter, None, 0).volumes
    }

    /// The list that the texts make.
    fn list(stubs: &KeptStubs, views: &[VolumeView]) -> Vec<u8> {
        let texts = stubs.texts(views).unwrap();
        let mut list: Vec<u8> = texts.iter().flat_map(|text| text.bytes.to_vec()).collect();
        list.pop();
        [b"[", &list[..], b"]"].concat()
    }

    fn fresh(views: &[VolumeView]) -> Vec<u8> {
        let stubs: Vec<_> = views.iter().map(volume_stub).collect();
        serde_json::to_vec(&stubs).unwrap()
    }

    fn kept(stubs: &KeptStubs) -> usize {
        stubs.table.read().stubs.len()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(few_or_many(8, 64)))]

        /// After every event of a history the kept list equals one that is made from the state, also if some events had
        /// no list in between.
        #[test]
        fn a_kept_list_equals_a_fresh_one(seed in 0..u64::MAX, skipped in 1..4_usize) {
            let stubs = KeptStubs::default();
            let mut history = History::new(seed);
            for number in 0..300 {
                if history.next().is_none() {
                    break;
                }
                if number % skipped == 0 {
                    let views = views(history.state());
                    let list = list(&stubs, &views);
                    let (list, fresh) = (String::from_utf8(list), String::from_utf8(fresh(&views)));
                    prop_assert_eq!(list, fresh);
                }
            }
        }
    }

    /// What is not changed is not made again, and texts of records that are gone do not stay.
    #[test]
    fn texts_are_used_again_and_removed_with_their_records() {
        let stubs = KeptStubs::default();
        let mut history = History::new(7);
        let views = loop {
            history.next().unwrap();
            let views = views(history.state());
            if views.len() > 2 {
                break views;
            }
        };
        let numbers = || {
            let texts = stubs.texts(&views).unwrap();
            texts.iter().map(|text| text.number).collect::<Vec<_>>()
        };
        let before = numbers();
        assert_eq!(before, numbers());
        // Each pass lists a copy of the first volume, whose record is gone afterwards.
        for _ in 0..3 * FEW {
            let copy = VolumeView {
                record: Arc::new(VolumeRecord::clone(&views[0].record)),
                ..views[0].clone()
            };
            stubs.texts(&[copy]).unwrap();
        }
        assert!(kept(&stubs) <= views.len() + FEW + 2, "{}", kept(&stubs));
        assert_eq!(before, numbers());
    }
}
