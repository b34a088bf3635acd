//! The steps of one volume on this node: files, mount table and plugin, in this order.
//!
//! The mount table is read before and after every call. A volume counts as published only if its
//! target is a mount point, or for a device if something is there. A volume counts as given back only
//! if nothing is mounted any more, and if no process keeps its file system; then the mount point and its record are
//! removed. An answer that did not come is never a success (W04).
//!
//! What is there after a stage or a publish is recorded, so that its loss is noticed. Another file system over it is
//! neither taken for the volume nor unmounted. Files that were written beside the volume, while nothing was mounted,
//! are kept: they are moved aside, and the undo goes on.
//!
//! What is below a target is sealed while the volume is published, and the seal is removed before every call for the
//! target: a plugin creates and removes it, and what was written there is moved.
//!
//! Undoing what is already undone succeeds, because the plugin says so: with success, or with NOT_FOUND. Any other error
//! is one, also if nothing is mounted any more: the plugin may have unmounted the volume and still have a session of it
//! open. The text of an error decides nothing.

use std::path::Path;
use std::sync::Arc;

use super::source_comparison::loss_in_table;
use super::volume_call_locks::PluginCalls;
use super::volume_files::{
    Durability, Holder, LeftoverMount, MountPoint, VolumeFile, find_volume, record_source,
};
use nomad_csi_model::{
    AttachmentMode, Bytes, MountRoot, NodeCapabilities, RemoteVolume, StagingPath, TargetPath,
};
use nomad_csi_ports::{
    HostError, HostFileError, MountAction, MountEntry, MountEvent, MountIdentity, MountObserver,
    Mounter, NodeExpandRequest, NodeExpandVolume, NodeService, PublishRequest, PublishVolume,
    SourceIdentity, StageRequest, StageVolume, SweepOutcome, run_blocking,
};

/// The ports and the plugin of one request.
pub(super) struct VolumeSteps {
    pub(super) root: MountRoot,
    pub(super) node: Arc<dyn NodeService>,
    pub(super) capabilities: NodeCapabilities,
    /// True if the plugin attaches volumes; `None` if its controller is not the same process.
    pub(super) attaches: Option<bool>,
    pub(super) mounter: Arc<dyn Mounter>,
    pub(super) observer: Arc<dyn MountObserver>,
    pub(super) calls: PluginCalls,
}

impl VolumeSteps {
    /// Stages a volume.
    pub(super) async fn stage(&self, request: StageRequest) -> Result<(), HostError> {
        self.require(self.capabilities.stage_unstage_volume, "STAGE_UNSTAGE_VOLUME")?;
        self.check_attaches(request.attaches)?;
        let path = self.root.staging(&request.volume.external_id);
        let mount_point = MountPoint::of_staging(&self.root, &path);
        let record = VolumeFile {
            volume: request.volume.clone(),
            name: request.name,
            target: None,
            source: None,
        };
        let before = self.check_uncovered(&mount_point).await?;
        self.keep_bare_content(&mount_point).await?;
        let is_new = self.prepare(&mount_point, record).await?;
        let message = StageVolume {
            external_id: request.volume.external_id,
            publish_context: request.publish_context,
            staging_path: path.in_plugin().to_owned(),
            capability: request.usage.capability,
            mount_options: request.usage.mount_options,
            secrets: request.secrets,
            context: request.volume_context,
        };
        let staged = self.calls.send(self.node.stage_volume(message)).await;
        self.clean_up_if_unused(&mount_point, is_new, staged).await?;
        let found = self.identify(&mount_point).await?;
        // Some plugins mount nothing here. One that has done so takes a staging that lost its mount for whole.
        if before.is_some() && found.mount.is_none() {
            return Err(self.not_there(&mount_point, "not a mount point"));
        }
        self.record_source(&mount_point, found, false).await
    }

    /// Publishes a volume.
    pub(super) async fn publish(&self, request: PublishRequest) -> Result<TargetPath, HostError> {
        self.check_attaches(request.attaches)?;
        if request.stages != self.capabilities.stage_unstage_volume {
            return Err(self.changed("STAGE_UNSTAGE_VOLUME"));
        }
        let id = &request.volume.external_id;
        let path = self.root.target(id, &request.alloc, &request.alias);
        let mount_point = MountPoint::of_target(&self.root, &path);
        let record = VolumeFile {
            volume: request.volume.clone(),
            name: request.name,
            target: Some((request.alloc, request.alias)),
            source: None,
        };
        self.check_uncovered(&mount_point).await?;
        self.check_staging(&request.volume).await?;
        self.unseal(&mount_point).await?;
        self.keep_bare_content(&mount_point).await?;
        let is_new = self.prepare(&mount_point, record).await?;
        let mode = request.usage.capability.attachment_mode;
        let message = PublishVolume {
            staging_path: self.staging_in_plugin(&request.volume),
            external_id: request.volume.external_id,
            publish_context: request.publish_context,
            target_path: path.in_plugin().to_owned(),
            capability: request.usage.capability,
            mount_options: request.usage.mount_options,
            read_only: request.read_only,
            secrets: request.secrets,
            context: request.volume_context,
        };
        let published = self.calls.send(self.node.publish_volume(message)).await;
        self.clean_up_if_unused(&mount_point, is_new, published).await?;
        let found = self.identify(&mount_point).await?;
        match mode {
            AttachmentMode::FileSystem if found.mount.is_none() => {
                return Err(self.not_there(&mount_point, "not a mount point"));
            }
            AttachmentMode::BlockDevice if !found.is_volume() => {
                return Err(self.not_there(&mount_point, "not a device"));
            }
            AttachmentMode::FileSystem | AttachmentMode::BlockDevice => {}
        }
        let is_mounted = found.mount.is_some();
        self.record_source(&mount_point, found, true).await?;
        // The step is done after this, so an agent that ends before it publishes again.
        if is_mounted {
            self.seal(&mount_point).await;
        }
        Ok(path)
    }

    /// Writes the damaged record of a mount point again while something is mounted there. The path follows from the volume and
    /// the allocation, so the mount point is theirs, and what the record knew of the mount is there to be seen.
    ///
    /// # Errors
    /// If it cannot be written, or nothing is mounted there: then only the record knew whose files may still be open.
    pub(super) async fn repair(
        &self,
        mount_point: &MountPoint,
        record: VolumeFile,
    ) -> Result<(), HostError> {
        let Err(error) = blocking(mount_point, MountPoint::read).await else {
            return Ok(());
        };
        if !error.is_damaged_file() || !self.is_mounted(&mount_point.mount).await? {
            return Err(HostError::NotPrepared(error));
        }
        let found = self.identify(mount_point).await?;
        tracing::warn!(%error, "the damaged record of a volume is written again");
        let durability = self.durability(record.target.is_some());
        let record = VolumeFile { source: Some(found), ..record };
        let write = move |mount_point: &MountPoint| mount_point.prepare(&record, true, durability);
        let written = blocking(mount_point, write).await;
        written.map_err(HostError::NotPrepared)
    }

    /// Undoes a publish.
    pub(super) async fn unpublish(
        &self,
        volume: &RemoteVolume,
        path: &TargetPath,
    ) -> Result<(), HostError> {
        let mount_point = MountPoint::of_target(&self.root, path);
        self.check_owner(&mount_point, volume).await?;
        self.unseal(&mount_point).await?;
        self.keep_bare_content(&mount_point).await?;
        let target = path.in_plugin().to_owned();
        let call = self.node.unpublish_volume(volume.external_id.clone(), target);
        // NOT_FOUND is a success: see the table of verdicts.
        self.calls.send(call).await?;
        if self.is_mounted(&mount_point.mount).await.map_err(after_call)? {
            return Err(self.still_there(&mount_point));
        }
        self.check_unused(&mount_point, volume).await?;
        self.remove(&mount_point).await
    }

    /// Undoes a staging.
    pub(super) async fn unstage(&self, volume: &RemoteVolume) -> Result<(), HostError> {
        self.require(self.capabilities.stage_unstage_volume, "STAGE_UNSTAGE_VOLUME")?;
        let path = self.root.staging(&volume.external_id);
        let mount_point = MountPoint::of_staging(&self.root, &path);
        self.check_owner(&mount_point, volume).await?;
        self.check_no_target(volume).await?;
        self.keep_bare_content(&mount_point).await?;
        let staging = path.in_plugin().to_owned();
        let call = self.node.unstage_volume(volume.external_id.clone(), staging);
        self.calls.send(call).await?;
        if self.is_mounted(&mount_point.mount).await.map_err(after_call)? {
            return Err(self.still_there(&mount_point));
        }
        self.check_unused(&mount_point, volume).await?;
        self.remove(&mount_point).await
    }

    /// Refuses to give a volume back whose file system something still uses: a descriptor that a task passed on is no mount
    /// here, and writes all the same. The record stays, so that the next attempt asks again.
    async fn check_unused(
        &self,
        mount_point: &MountPoint,
        volume: &RemoteVolume,
    ) -> Result<(), HostError> {
        let recorded = blocking(mount_point, MountPoint::read).await;
        let recorded = recorded.map_err(HostError::NotFinished)?;
        let Some(mount) = recorded.and_then(|record| record.source?.mount) else {
            return Ok(());
        };
        let found = self.mounter.processes_that_keep(&mount).await;
        let found = found.map_err(|error| {
            let error = HostFileError::new("look for users of", &mount_point.mount, &error.source);
            HostError::NotFinished(error)
        })?;
        match found {
            None => Ok(()),
            Some(processes) => {
                Err(HostError::StillOpen { volume: volume.external_id.clone(), processes })
            }
        }
    }

    /// Expands a volume where it is published, or where it is staged.
    pub(super) async fn expand(&self, request: NodeExpandRequest) -> Result<Bytes, HostError> {
        self.require(self.capabilities.expand_volume, "EXPAND_VOLUME")?;
        let staging = self.staging_in_plugin(&request.volume);
        let target = request.target.as_ref().map(|(alloc, alias)| {
            let path = self.root.target(&request.volume.external_id, alloc, alias);
            path.in_plugin().to_owned()
        });
        let message = NodeExpandVolume {
            external_id: request.volume.external_id,
            volume_path: target.or_else(|| staging.clone()).unwrap_or_default(),
            capacity: request.capacity,
            staging_path: staging,
            capability: Some(request.usage.capability),
            mount_options: request.usage.mount_options,
            secrets: request.secrets,
        };
        self.calls.send(self.node.node_expand_volume(message)).await
    }

    /// Undoes whatever is here of a volume, targets before the staging.
    pub(super) async fn sweep(&self, volume: &RemoteVolume) -> Result<SweepOutcome, HostError> {
        let found = self.found(volume).await?;
        for each in &found {
            if let LeftoverMount::Target(_, path, record) = each {
                let undone = self.unpublish(volume, path).await;
                self.report(record, undone.as_ref().err());
                undone?;
            }
        }
        for each in &found {
            match each {
                LeftoverMount::Staging(..) if self.capabilities.stage_unstage_volume => {
                    self.unstage(volume).await?;
                }
                LeftoverMount::Staging(mount_point, _) => {
                    self.forget_unused_staging(mount_point).await?;
                }
                LeftoverMount::Target(..) => {}
            }
        }
        Ok(if found.is_empty() { SweepOutcome::NothingLeft } else { SweepOutcome::UndidSomething })
    }

    /// Returns the mount that is recorded at a mount point. Refuses one at which another file system covers it: a plugin that
    /// finds a mount there may take it for its own.
    async fn check_uncovered(
        &self,
        mount_point: &MountPoint,
    ) -> Result<Option<MountIdentity>, HostError> {
        let recorded = blocking(mount_point, MountPoint::read).await;
        let recorded = recorded.map_err(HostError::NotPrepared)?;
        let Some(expected) = recorded.and_then(|record| record.source?.mount) else {
            return Ok(None);
        };
        match self.entry(&mount_point.mount).await? {
            Some(found) if !expected.may_show_same_files(&found.identity()) => {
                let found = format!("something else (`{}`)", found.source);
                let path = mount_point.mount.clone();
                Err(HostError::Occupied { path, found })
            }
            Some(_) | None => Ok(Some(expected)),
        }
    }

    /// Refuses to publish from a staging that has lost its mount: a plugin would publish the bare directory.
    async fn check_staging(&self, volume: &RemoteVolume) -> Result<(), HostError> {
        if !self.capabilities.stage_unstage_volume {
            return Ok(());
        }
        let path = self.root.staging(&volume.external_id);
        let mount_point = MountPoint::of_staging(&self.root, &path);
        let recorded = blocking(&mount_point, MountPoint::read).await;
        let recorded = recorded.map_err(HostError::NotPrepared)?;
        let Some(source) = recorded.and_then(|record| record.source) else {
            return Ok(());
        };
        let found = self.entry(&mount_point.mount).await?;
        match loss_in_table(&source, &mount_point.mount, found.as_ref()) {
            None => Ok(()),
            Some(reason) => Err(HostError::StagingLost { reason }),
        }
    }

    /// Seals what is below a target. Where that is not possible, the look at each start of a task is the guard.
    async fn seal(&self, mount_point: &MountPoint) {
        match self.mounter.seal(&mount_point.mount).await {
            Ok(_) => {}
            Err(error) => {
                let reason = &error.source;
                tracing::warn!(%error, %reason, "what is below a target is not sealed");
            }
        }
    }

    /// Removes the seal of a target. An agent that ended in between has left the seal, or none.
    async fn unseal(&self, mount_point: &MountPoint) -> Result<(), HostError> {
        let unsealed = self.mounter.unseal(&mount_point.mount).await;
        unsealed.map_err(|error| HostError::Sealed {
            path: mount_point.mount.clone(),
            reason: error.source.to_string(),
        })
    }

    /// Moves aside what was written at a mount point of the volume while nothing was mounted there: a plugin would not remove
    /// it, and a mount would hide it. A staging at which the plugin mounts nothing is its own, and may have its files.
    async fn keep_bare_content(&self, mount_point: &MountPoint) -> Result<(), HostError> {
        if self.is_mounted(&mount_point.mount).await? {
            return Ok(());
        }
        let keep = |mount_point: &MountPoint| {
            let record = mount_point.read()?.filter(VolumeFile::has_lost_mount);
            let kept = record.as_ref().map(|_| mount_point.keep_content()).transpose()?;
            Ok(record.zip(kept.flatten()))
        };
        let kept = blocking(mount_point, keep).await;
        if let Some((record, kept)) = kept.map_err(HostError::NotPrepared)? {
            self.report_kept(&record, &kept);
        }
        Ok(())
    }

    /// Returns what is at a mount point after a successful call.
    async fn identify(&self, mount_point: &MountPoint) -> Result<SourceIdentity, HostError> {
        let found = self.mounter.identify(&mount_point.mount).await;
        let found = found.map_err(|error| {
            let error = HostFileError::new("examine", &mount_point.mount, &error.source);
            HostError::NotFinished(error)
        })?;
        Ok(found.unwrap_or_default())
    }

    /// Records what is at a mount point after a successful call.
    async fn record_source(
        &self,
        mount_point: &MountPoint,
        found: SourceIdentity,
        is_target: bool,
    ) -> Result<(), HostError> {
        let durability = self.durability(is_target);
        let record =
            move |mount_point: &MountPoint| record_source(&mount_point.mount, found, durability);
        let recorded = blocking(mount_point, record).await;
        recorded.map_err(HostError::NotFinished)
    }

    /// Sends the event of a target that a sweep unpublished.
    fn report(&self, record: &VolumeFile, error: Option<&HostError>) {
        self.observer.observed(MountEvent {
            volume: record.name.clone(),
            alloc: record.target.as_ref().map(|(alloc, _)| alloc.clone()),
            action: MountAction::Unmount,
            error: error.map(ToString::to_string),
        });
    }

    /// Removes the staging of a plugin that no longer stages, if nothing is mounted there.
    async fn forget_unused_staging(&self, mount_point: &MountPoint) -> Result<(), HostError> {
        if self.is_mounted(&mount_point.mount).await? {
            return self.require(false, "STAGE_UNSTAGE_VOLUME");
        }
        self.remove(mount_point).await
    }

    /// Returns what the record of a target, or of a staging, outlives: the first one of a volume outlives everything.
    fn durability(&self, is_target: bool) -> Durability {
        match is_target && self.capabilities.stage_unstage_volume {
            true => Durability::Crash,
            false => Durability::PowerFailure,
        }
    }

    /// Creates what the call needs. Returns whether the volume was not here before.
    async fn prepare(
        &self,
        mount_point: &MountPoint,
        record: VolumeFile,
    ) -> Result<bool, HostError> {
        let durability = self.durability(record.target.is_some());
        let prepare = move |mount_point: &MountPoint| {
            let holder = mount_point.holder()?;
            let is_new = match &holder {
                Holder::Nothing => true,
                Holder::Volume(volume) if *volume == record.volume => false,
                Holder::Volume(_) | Holder::Unknown => return Ok(Err((holder, record))),
            };
            create(mount_point, &record, is_new, durability)?;
            Ok(Ok(is_new))
        };
        let prepared = blocking(mount_point, prepare).await;
        let (holder, record) = match prepared.map_err(HostError::NotPrepared)? {
            Ok(is_new) => return Ok(is_new),
            Err(unclear) => unclear,
        };
        self.check_holder(mount_point, &record.volume, holder).await?;
        let create = move |mount_point: &MountPoint| create(mount_point, &record, true, durability);
        let created = blocking(mount_point, create).await;
        created.map_err(HostError::NotPrepared)?;
        Ok(true)
    }

    /// Refuses a mount point that something else uses.
    async fn check_owner(
        &self,
        mount_point: &MountPoint,
        volume: &RemoteVolume,
    ) -> Result<(), HostError> {
        let holder = blocking(mount_point, MountPoint::holder).await;
        let holder = holder.map_err(HostError::NotPrepared)?;
        self.check_holder(mount_point, volume, holder).await
    }

    async fn check_holder(
        &self,
        mount_point: &MountPoint,
        volume: &RemoteVolume,
        holder: Holder,
    ) -> Result<(), HostError> {
        let found = match holder {
            Holder::Nothing => return Ok(()),
            Holder::Volume(holder) if holder == *volume => return Ok(()),
            Holder::Volume(holder) => format!("volume `{}`", holder.external_id),
            Holder::Unknown if self.is_mounted(&mount_point.mount).await? => {
                "something else".to_owned()
            }
            Holder::Unknown => return Ok(()),
        };
        let path = mount_point.mount.clone();
        Err(HostError::Occupied { path, found })
    }

    /// Returns what is here of a volume.
    async fn found(&self, volume: &RemoteVolume) -> Result<Vec<LeftoverMount>, HostError> {
        let (root, id) = (self.root.clone(), volume.external_id.clone());
        let found = run_on_files(move || find_volume(&root, &id)).await;
        let mut found = found.map_err(HostError::NotPrepared)?;
        found.retain(|each| each.volume() == volume);
        Ok(found)
    }

    /// Refuses to unstage a volume that has a target here (W03).
    async fn check_no_target(&self, volume: &RemoteVolume) -> Result<(), HostError> {
        let found = self.found(volume).await?;
        let mut found = found.iter();
        let target = found.find(|each| matches!(each, LeftoverMount::Target(..)));
        match target {
            None => Ok(()),
            Some(target) => Err(HostError::InUse {
                volume: volume.external_id.clone(),
                path: target.mount().to_owned(),
            }),
        }
    }

    /// Removes the files of a volume that was not here before, after a call without effect.
    async fn clean_up_if_unused(
        &self,
        mount_point: &MountPoint,
        is_new: bool,
        answer: Result<(), HostError>,
    ) -> Result<(), HostError> {
        let Err(error) = &answer else {
            return answer;
        };
        let is_unused = is_new
            && !error.may_have_taken_effect()
            && !self.is_mounted(&mount_point.mount).await?;
        if is_unused && let Err(error) = self.remove(mount_point).await {
            tracing::warn!(%error, "the files of a volume that was not mounted are left");
        }
        answer
    }

    /// Removes the mount point, and then the record.
    async fn remove(&self, mount_point: &MountPoint) -> Result<(), HostError> {
        let remove = move |mount_point: &MountPoint| {
            let record = mount_point.read()?;
            let kept = mount_point.remove_mount_point()?;
            mount_point.remove_record()?;
            Ok(kept.zip(record))
        };
        let removed = blocking(mount_point, remove).await;
        if let Some((kept, record)) = removed.map_err(HostError::NotFinished)? {
            self.report_kept(&record, &kept);
        }
        Ok(())
    }

    /// Sends the event of files that were written beside a volume.
    fn report_kept(&self, record: &VolumeFile, kept: &Path) {
        let kept = kept.display();
        self.observer.observed(MountEvent {
            volume: record.name.clone(),
            alloc: record.target.as_ref().map(|(alloc, _)| alloc.clone()),
            action: MountAction::Keep,
            error: Some(format!(
                "files were written beside the volume while it was not mounted; they are kept in `{kept}`"
            )),
        });
    }

    async fn is_mounted(&self, path: &Path) -> Result<bool, HostError> {
        Ok(self.entry(path).await?.is_some())
    }

    async fn entry(&self, path: &Path) -> Result<Option<MountEntry>, HostError> {
        let entry = self.mounter.entry(path).await;
        entry.map_err(|error| {
            let action = "read the mounts at";
            HostError::NotPrepared(HostFileError::new(action, path, &error.source))
        })
    }

    fn staging_in_plugin(&self, volume: &RemoteVolume) -> Option<std::path::PathBuf> {
        let path: StagingPath = self.root.staging(&volume.external_id);
        let stages = self.capabilities.stage_unstage_volume;
        stages.then(|| path.in_plugin().to_owned())
    }

    fn require(&self, is_there: bool, what: &'static str) -> Result<(), HostError> {
        if is_there {
            return Ok(());
        }
        let plugin = self.calls.plugin().clone();
        Err(HostError::Unsupported { plugin, what: what.into() })
    }

    /// Refuses what was decided without an attachment, if the plugin attaches volumes now (rule 18 of the claims
    /// machine). One that does not may be called beside a controller that does, while it is upgraded.
    fn check_attaches(&self, decided: bool) -> Result<(), HostError> {
        match self.attaches {
            Some(true) if !decided => Err(self.changed("PUBLISH_UNPUBLISH_VOLUME")),
            Some(_) | None => Ok(()),
        }
    }

    fn changed(&self, what: &'static str) -> HostError {
        let plugin = self.calls.plugin().clone();
        HostError::Changed { plugin, what: what.into() }
    }

    fn not_there(&self, mount_point: &MountPoint, found: &'static str) -> HostError {
        HostError::NotThere {
            plugin: self.calls.plugin().clone(),
            path: mount_point.mount.clone(),
            found: found.into(),
        }
    }

    fn still_there(&self, mount_point: &MountPoint) -> HostError {
        HostError::StillThere {
            plugin: self.calls.plugin().clone(),
            path: mount_point.mount.clone(),
        }
    }
}

/// A file error that came after the plugin was called.
fn after_call(error: HostError) -> HostError {
    match error {
        HostError::NotPrepared(error) => HostError::NotFinished(error),
        error => error,
    }
}

/// Creates what a call needs at a mount point. Nothing is left if the record is new and the mount point fails.
fn create(
    mount_point: &MountPoint,
    record: &VolumeFile,
    is_new: bool,
    durability: Durability,
) -> Result<(), HostFileError> {
    // The mount that an earlier call made may be gone, and the reply to this call may be lost.
    let is_written = is_new || mount_point.has_source()?;
    mount_point.prepare(record, is_written, durability)?;
    let is_staging = record.target.is_none();
    match is_staging.then(|| mount_point.create_mount_point()) {
        Some(Err(error)) if is_new => mount_point.remove_record().and(Err(error)),
        None => Ok(()),
        Some(created) => created,
    }
}

/// Runs an action on a mount point on a blocking thread.
async fn blocking<T: Send + 'static>(
    mount_point: &MountPoint,
    action: impl FnOnce(&MountPoint) -> Result<T, HostFileError> + Send + 'static,
) -> Result<T, HostFileError> {
    let mount_point = mount_point.clone();
    run_on_files(move || action(&mount_point)).await
}

/// Runs an action on the files of volumes on a blocking thread.
pub(super) async fn run_on_files<T: Send + 'static>(
    action: impl FnOnce() -> Result<T, HostFileError> + Send + 'static,
) -> Result<T, HostFileError> {
    let done = run_blocking(move || Ok(action())).await;
    done.unwrap_or_else(|error| Err(HostFileError::new("use", Path::new("/"), &error)))
}
