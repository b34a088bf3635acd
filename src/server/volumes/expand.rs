//! Growth: a volume becomes larger in its provider, and then on its nodes (`csi-orchestration` 2.7,
//! W17; `csi-spec` 5.15).
//!
//! Two halves, both on record. The provider's: the intent is recorded before ControllerExpandVolume
//! is sent, and leaves the record with the answer, or when it is certain that nothing has grown.
//! After anything else, the end of this process included, the next request for the volume sends the
//! identical call first: what is large enough already is success. The nodes' half: if the plugin asks
//! for it, that is recorded with the answer, and stays until a node has done it; the volume's document
//! says so.
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

/// A volume that has to grow before an update of it can be stored.
#[derive(Debug)]
pub(super) struct Growth {
    pub(super) key: NamespacedId,
    pub(super) to: CapacityRange,
    /// As the update leaves them.
    pub(super) secrets: Secrets,
    pub(super) on: UpdateRequest,
}

impl Desk {
    /// Grows it. The caller has the volume's lane and its external volume's.
    pub(super) async fn grow(&self, growth: &Growth) -> Result<(), ServerError> {
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
        let is_same = record.expanding == Some(growth.to);
        if !is_same {
            let to = growth.to;
            let event = EventKind::VolumeExpandIntended { key, to };
            self.commit(unchanged(record), event).await?;
        }
        let record = self.cell.read(|state| state.record(&growth.key).cloned());
        let record = record.ok_or_else(|| ServerError::VolumeNotFound(growth.key.clone()))?;
        Ok(Intent {
            record: VolumeRecord::clone(&record),
            earlier,
            is_same,
        })
    }

    async fn send_expansion(
        &self,
        growth: &Growth,
        record: &VolumeRecord,
        candidates: &Candidates,
    ) -> Result<ExpandedVolume, ForwardError> {
        let request = ExpandVolume {
            external_id: remote_id(record),
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
        // What is refused as it is was refused before too, whatever became of the answer.
        if leaves_nothing(&error, intent.earlier) || (refused && intent.is_same) {
            let event = EventKind::VolumeExpandAbandoned { key: key.clone() };
            match self.commit(unchanged(record), event).await {
                Ok(_) => return nothing,
                Err(error) => {
                    warn!(volume.id = %key.id, volume.namespace = %key.namespace, error = %error,
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
    /// Whether a call may have been sent before.
    earlier: Earlier,
    /// Whether that was the identical one.
    is_same: bool,
}

fn remote_id(record: &VolumeRecord) -> crate::model::ExternalId {
    let id = || crate::model::ExternalId::new(record.key().id.as_str());
    record.remote_id().unwrap_or_else(id)
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
        subject: remote_id(record).to_string(),
        plugin: record.definition.plugin_id.clone(),
        error,
        aftermath,
    }))
}

/// What is left to do for a volume that has grown, for whoever asked.
pub(super) fn node_expansion_warning(record: &VolumeRecord) -> Option<String> {
    record.node_expansion_pending.then(|| {
        format!(
            "volume {}: its provider has made it larger; the plugin asks for the same on every node that uses it, which is pending until one does",
            record.key()
        )
    })
}
