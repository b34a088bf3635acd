//! The journal of an agent with many volumes.

use std::path::Path;

use nomad_csi_claims::state::samples::{definition, key, provided};
use nomad_csi_claims::state::{Event, EventKind, State};
use nomad_csi_model::SealedSecrets;
use nomad_csi_server::Journal as _;
use nomad_csi_server::store::EmbeddedJournal;

/// Writes the journal of an agent with that many registered volumes.
pub(crate) fn fill(data: &Path, volumes: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let journal = EmbeddedJournal::open(data.join("journal.redb")).await.unwrap();
        let mut index = State::FIRST_INDEX + 1;
        let ids: Vec<usize> = (0..volumes).collect();
        for part in ids.chunks(1000) {
            let events: Vec<Event> = part.iter().map(|at| registered(*at)).collect();
            journal.append(index, events.into()).await.unwrap();
            index += part.len() as u64;
        }
    });
}

fn registered(at: usize) -> Event {
    let key = key("default", &format!("v{at}"));
    let kind = EventKind::VolumeRegistered {
        definition: Box::new(definition(&key)),
        provided: Box::new(provided(&format!("external-{at}"))),
        secrets: SealedSecrets::default(),
    };
    Event::new(1, kind)
}
