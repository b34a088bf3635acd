//! Create: a volume is made by its provider and becomes known.
//!
//! The intent is recorded before CreateVolume is sent (W14), under a name that is this volume's
//! alone (W13): for the provider the name is the identity, so whoever sends it again gets the same
//! volume. From there on:
//!
//! * the answer is recorded: the volume is registered;
//! * the plugin refuses, and it is certain that it has made nothing: the intent is abandoned;
//! * anything else, the end of this process included: the intent stays, readers see no volume, and
//!   the next request about it goes on under the same name, so nothing is made twice or left behind.
//!
//! Going on with a *changed* request sends the changed one first: if the provider has made nothing
//! yet, that is what is wanted. If it answers ALREADY_EXISTS, it has made what was asked for before;
//! that request is sent again to learn the volume's ID, and the changed one is merged into it.
//!
//! A volume that exists is never created again (B01): the request is an update of it.

use tracing::{info, warn};

use super::check::{Purpose, check, warnings};
use super::desk::{Desk, Subject, changed, unchanged};
use super::expand::{Growing, expansion_warnings};
use super::intent::{Earlier, Intent, has_answered};
use super::plugin::PluginFacts;
use super::register::shared_warning;
use super::service::{Submitted, WriteOutcome};
use crate::model::{NamespacedId, VolumeRequest};
use crate::ports::StatusCode;
use crate::server::cell::{CommitError, Expected};
use crate::server::error::{Aftermath, ServerError, UpdateRequest};
use crate::server::forward::Outcome;
use crate::state::{EventKind, Phase, VolumeRecord, VolumeView, sharing, volume};

const ON: UpdateRequest = UpdateRequest::Create;

impl Desk {
    pub(super) async fn create_all(
        &self,
        volumes: Vec<Submitted>,
    ) -> Result<WriteOutcome, ServerError> {
        if volumes.is_empty() {
            return Err(ServerError::MissingDefinition);
        }
        for one in &volumes {
            let fit = self.may_be_created(one);
            fit.map_err(|error| error.of(&one.request.key(), volumes.len()))?;
        }
        let mut outcome = WriteOutcome::default();
        let mut failures = vec![];
        for one in volumes {
            match self.create(one).await {
                Ok((view, warnings)) => {
                    outcome.volumes.push(view);
                    outcome.warnings.extend(warnings);
                }
                Err(error) => failures.push(error),
            }
        }
        outcome.index = self.cell.index();
        if failures.is_empty() {
            Ok(outcome)
        } else {
            Err(ServerError::Several(failures))
        }
    }

    /// What can be said before anything is done for any volume of the request.
    fn may_be_created(&self, submitted: &Submitted) -> Result<(), ServerError> {
        let request = &submitted.request;
        let (exists, plugin) = self.cell.read(|state| {
            (
                volume(state, &request.key()).is_some(),
                PluginFacts::look(state, &request.plugin_id),
            )
        });
        check(submitted, Purpose { on: ON, exists })?;
        let plugin = plugin.ok_or_else(|| ServerError::UnknownPlugin(request.plugin_id.clone()))?;
        plugin.check_create()?;
        if exists {
            return Ok(());
        }
        plugin.check_source(request)
    }

    async fn create(
        &self,
        mut submitted: Submitted,
    ) -> Result<(VolumeView, Vec<String>), ServerError> {
        let key = submitted.request.key();
        let warnings = warnings(&submitted.request, ON);
        submitted.request.context = None;
        let _turn = self.turn(Subject::Volume(key.clone())).await?;
        for _ in 0..self.limits.merges {
            match self.create_once(&submitted.request).await {
                Ok(view) => return Ok(self.with_warnings(view, warnings)),
                Err(ServerError::Commit(CommitError::Conflict { .. } | CommitError::Misfit(_))) => {
                }
                Err(error) => return Err(error),
            }
        }
        Err(ServerError::KeepsChanging(key))
    }

    async fn create_once(&self, request: &VolumeRequest) -> Result<VolumeView, ServerError> {
        let key = request.key();
        let record = self.cell.read(|state| state.record(&key).cloned());
        let Some(record) = record else {
            return self.begin(request).await;
        };
        match record.phase {
            Phase::Deleting => Err(ServerError::BeingDeleted(key)),
            Phase::Registered => self.update_existing(request).await,
            Phase::Creating if record.definition.plugin_id == request.plugin_id => {
                self.go_on(&record, request).await
            }
            Phase::Creating => {
                self.settle_if_creating(&key, None).await?;
                Err(changed(&key))
            }
        }
    }

    async fn update_existing(&self, request: &VolumeRequest) -> Result<VolumeView, ServerError> {
        let key = request.key();
        let (existing, plugin) = self.cell.read(|state| {
            (
                volume(state, &key),
                PluginFacts::look(state, &request.plugin_id),
            )
        });
        let existing = existing.ok_or_else(|| changed(&key))?;
        let plugin = plugin.ok_or_else(|| ServerError::UnknownPlugin(request.plugin_id.clone()))?;
        if let Some(write) = self.update(&existing, request, &plugin, ON)?.write {
            if let Some(growth) = &write.growth {
                let volume = existing.volume();
                let external = Subject::External(volume.plugin_id.clone(), volume.remote_id());
                let _external = self.turn(external).await?;
                if self.grow(growth).await? == Growing::Settled {
                    return Err(changed(&key));
                }
            }
            if let Some(event) = write.event {
                let index = self.commit(write.expected, event).await?;
                info!(volume.id = %key.id, volume.namespace = %key.namespace, index, "volume updated");
            }
        }
        self.view(&key)
    }

    /// A volume of which nothing is known.
    async fn begin(&self, request: &VolumeRequest) -> Result<VolumeView, ServerError> {
        let definition = self.definition(request);
        let route = self.route(&definition, Aftermath::Nothing).await?;
        let secrets = request.secrets.clone().unwrap_or_default();
        let expected = Expected::VolumeAbsent(request.key());
        let intent = self
            .intend(expected, definition, secrets, Earlier::Nothing)
            .await?;
        self.carry_out(&intent, &route).await?;
        self.view(&request.key())
    }

    /// A volume whose creation was begun.
    async fn go_on(
        &self,
        record: &VolumeRecord,
        request: &VolumeRequest,
    ) -> Result<VolumeView, ServerError> {
        if self.asks_for(request, &record.definition)? {
            self.resume(record, request.secrets.as_ref()).await?;
            return self.view(&request.key());
        }
        let secrets = match &request.secrets {
            Some(secrets) => secrets.clone(),
            None => self.secrets_of(record)?,
        };
        let wanted = self.definition(request);
        let route = self.route(&wanted, self.pending(record)).await?;
        let changed_intent = self
            .intend(unchanged(record), wanted, secrets.clone(), Earlier::Calls)
            .await?;
        match self.carry_out(&changed_intent, &route).await {
            Ok(()) => self.view(&request.key()),
            Err(error) if has_answered(&error, StatusCode::AlreadyExists) => {
                let expected = unchanged(&changed_intent.record);
                let earlier = record.definition.clone();
                let intent = self
                    .intend(expected, earlier, secrets, Earlier::Calls)
                    .await?;
                self.carry_out(&intent, &route).await?;
                Err(changed(record.key()))
            }
            Err(error) => {
                if made_nothing(&error) {
                    self.put_back(&changed_intent, record).await;
                }
                Err(error)
            }
        }
    }

    /// After a changed request that has certainly made nothing, the earlier one is the one that may
    /// have: it stands on record again.
    async fn put_back(&self, intent: &Intent, earlier: &VolumeRecord) {
        let key = earlier.key();
        let event = EventKind::VolumeCreateIntended {
            definition: Box::new(earlier.definition.clone()),
            secrets: earlier.secrets.clone(),
        };
        if let Err(error) = self.commit(unchanged(&intent.record), event).await {
            warn!(volume.id = %key.id, volume.namespace = %key.namespace, error = %error,
                "the earlier request is no longer on record");
        }
    }

    fn view(&self, key: &NamespacedId) -> Result<VolumeView, ServerError> {
        self.cell
            .read(|state| volume(state, key))
            .ok_or_else(|| changed(key))
    }

    fn with_warnings(
        &self,
        view: VolumeView,
        mut warnings: Vec<String>,
    ) -> (VolumeView, Vec<String>) {
        if let Some(external_id) = view.record.remote_id() {
            let plugin = &view.record.definition.plugin_id;
            let keys = self.cell.read(|state| sharing(state, plugin, &external_id));
            warnings.extend(shared_warning(view.record.key(), &external_id, &keys));
        }
        warnings.extend(expansion_warnings(&view.record));
        (view, warnings)
    }
}

/// Whether the request itself, apart from earlier ones, has certainly made nothing.
fn made_nothing(error: &ServerError) -> bool {
    let ServerError::Plugin(failure) = error else {
        return false;
    };
    failure.error.outcome() == Outcome::Nothing
}
