//! Growth: a volume becomes larger in its provider, and then on its nodes (`csi-orchestration` 2.7,
//! W17; `csi-spec` 5.15).
//!
//! Two halves, both on record. The provider's: the intent is recorded before ControllerExpandVolume
//! is sent, and leaves the record with the answer, or when it is certain that nothing has grown.
//! After anything else, the end of this process included, the next request for the volume sends the
//! identical call first, whatever size it wants itself: what is large enough already is success, and
//! what is refused as it is was refused before too. If that call comes to nothing certain again, who
//! wants another size is refused, and any other update is stored, with a warning. The nodes' half: if
//! the plugin asks for it, that is recorded with the answer, and stays until a node has done it; the
//! volume's document says so.
//!
//! An expansion changes nothing but the size. The update that asked for it is decided anew on the
//! grown volume, so that the record never says that a volume is larger than its provider made it.

use tracing::{info, warn};

use super::desk::{Desk, unchanged};
use super::intent::{Earlier, has_answered, leaves_nothing};
use super::plugin::PluginFacts;
use crate::model::{CapacityRange, NamespacedId, Secrets};
use crate::ports::{ExpandVolume, ExpandedVolume, StatusCode};
use crate::server::error::{
    Aftermath, Object, Operation, PluginFailure, ServerError, UpdateRequest,
};
use crate::server::forward::{Candidates, ForwardError};
use crate::state::{EventKind, VolumeRecord};

/// A call that goes before an update can be stored.
#[derive(Debug)]
pub(super) struct Growth {
    pub(super) key: NamespacedId,
    /// What is on record already, if an expansion is open.
    pub(super) to: CapacityRange,
    pub(super) need: Need,
    /// As the update leaves them.
    pub(super) secrets: Secrets,
    pub(super) on: UpdateRequest,
}

/// What the update has to do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// It wants this size.
    ThisSize,
    /// It wants another one, larger than what is on record.
    AnotherSize,
    /// It can be stored without.
    None,
}

/// What is known afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Growing {
    /// The volume's size: the update is to be decided anew.
    Settled,
    /// As little as before; the update can be stored all the same.
    Open,
}

impl Desk {
    /// Grows it, or finds out what came of an expansion that was begun. The caller has the volume's
    /// lane and its external volume's.
    pub(super) async fn grow(&self, growth: &Growth) -> Result<Growing, ServerError> {
        match (self.expand(growth).await, growth.need) {
            (Ok(()), _) => Ok(Growing::Settled),
            (Err(error), Need::ThisSize) => Err(error),
            (Err(error), Need::AnotherSize | Need::None) => {
                let record = self.cell.read(|state| state.record(&growth.key).cloned());
                match (record.and_then(|record| record.expanding), growth.need) {
                    (None, _) => Ok(Growing::Settled),
                    (Some(_), Need::None) => Ok(Growing::Open),
                    (Some(_), Need::ThisSize | Need::AnotherSize) => Err(error),
                }
            }
        }
    }

    async fn expand(&self, growth: &Growth) -> Result<(), ServerError> {
        let key = &growth.key;
        let record = self.cell.read(|state| state.record(key).cloned());
        let record = record.ok_or_else(|| ServerError::VolumeNotFound(key.clone()))?;
        let id = &record.definition.plugin_id;
        let plugin = self.cell.read(|state| PluginFacts::look(state, id));
        let plugin = plugin.ok_or_else(|| ServerError::UnknownPlugin(id.clone()))?;
        let before = self.expansion_aftermath(&record);
        let candidates = plugin
            .candidates()
            .map_err(|error| failure(growth, &record, error.into(), before))?;
        let _slot = self.slot(&self.deletes, id).await?;
        let intent = self.intend_to_grow(growth, &record).await?;
        match self.send_expansion(growth, &record, &candidates).await {
            Ok(expanded) => self.grown(growth, &intent, expanded).await,
            Err(error) => Err(self.not_grown(growth, &intent, error).await),
        }
    }

    /// Records the intent, unless it stands there already.
    async fn intend_to_grow(
        &self,
        growth: &Growth,
        record: &VolumeRecord,
    ) -> Result<Intent, ServerError> {
        let key = growth.key.clone();
        let earlier = match record.expanding {
            Some(_) => Earlier::Calls,
            None => Earlier::Nothing,
        };
        if earlier == Earlier::Nothing {
            let to = growth.to;
            let event = EventKind::VolumeExpandIntended { key, to };
            self.commit(unchanged(record), event).await?;
        }
        let record = self.cell.read(|state| state.record(&growth.key).cloned());
        let record = record.ok_or_else(|| ServerError::VolumeNotFound(growth.key.clone()))?;
        Ok(Intent {
            record: VolumeRecord::clone(&record),
            earlier,
        })
    }

    async fn send_expansion(
        &self,
        growth: &Growth,
        record: &VolumeRecord,
        candidates: &Candidates,
    ) -> Result<ExpandedVolume, ForwardError> {
        let request = ExpandVolume {
            external_id: record.made_as(),
            capacity: growth.to,
            // Nothing is claimed, so no capability is in force.
            capability: None,
            mount_options: Default::default(),
            secrets: growth.secrets.clone(),
        };
        let rpc = Operation::Expand(growth.on).rpc();
        let answer = self.forward.call(candidates, rpc, |controller| {
            let request = request.clone();
            async move { controller.expand_volume(request).await }
        });
        answer.await
    }

    async fn grown(
        &self,
        growth: &Growth,
        intent: &Intent,
        expanded: ExpandedVolume,
    ) -> Result<(), ServerError> {
        let key = growth.key.clone();
        let event = EventKind::VolumeExpanded {
            key: key.clone(),
            // Success is at least what was asked for, also of plugins that do not say how much.
            capacity: expanded.capacity.max(growth.to.min),
            node_expansion_required: expanded.node_expansion_required,
        };
        let index = self.commit(unchanged(&intent.record), event).await?;
        info!(volume.id = %key.id, volume.namespace = %key.namespace, index,
            node_expansion_required = expanded.node_expansion_required, "volume expanded");
        Ok(())
    }

    async fn not_grown(
        &self,
        growth: &Growth,
        intent: &Intent,
        error: ForwardError,
    ) -> ServerError {
        let key = growth.key.clone();
        let record = &intent.record;
        let nothing = failure(growth, record, error.clone(), Aftermath::Nothing);
        let refused = has_answered(&nothing, StatusCode::OutOfRange)
            || has_answered(&nothing, StatusCode::InvalidArgument);
        if leaves_nothing(&error, intent.earlier) || refused {
            let event = EventKind::VolumeExpandAbandoned { key: key.clone() };
            match self.commit(unchanged(record), event).await {
                Ok(_) => return nothing,
                Err(error) => {
                    warn!(volume.id = %key.id, volume.namespace = %key.namespace, error = error.in_full(),
                        "the intent to expand the volume stays on record");
                }
            }
        }
        let pending = self.expansion_aftermath(record);
        failure(growth, record, error, pending)
    }

    fn expansion_aftermath(&self, record: &VolumeRecord) -> Aftermath {
        match record.expanding {
            None => Aftermath::Nothing,
            Some(_) => self.pending(record),
        }
    }
}

/// An expansion on record.
struct Intent {
    record: VolumeRecord,
    /// What may have been sent before: the identical call.
    earlier: Earlier,
}

fn failure(
    growth: &Growth,
    record: &VolumeRecord,
    error: ForwardError,
    aftermath: Aftermath,
) -> ServerError {
    ServerError::Plugin(Box::new(PluginFailure {
        operation: Operation::Expand(growth.on),
        object: Object::Volume(growth.key.clone()),
        subject: record.made_as().to_string(),
        plugin: record.definition.plugin_id.clone(),
        error,
        aftermath,
    }))
}

/// What is left to do for a volume that has grown or may have, for whoever asked.
pub(super) fn expansion_warnings(record: &VolumeRecord) -> impl Iterator<Item = String> {
    let open = record.expanding.map(|to| {
        format!(
            "volume {}: an expansion to {} was begun, and its plugin has not said what came of it; the next request for the volume asks again",
            record.key(),
            to.min
        )
    });
    let pending = record.node_expansion_pending.then(|| {
        format!(
            "volume {}: its provider has made it larger; the plugin asks for the same on every node that uses it, which is pending until one does",
            record.key()
        )
    });
    open.into_iter().chain(pending)
}
