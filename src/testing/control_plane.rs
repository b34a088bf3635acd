//! The server as one node sees it, in memory: a list of allocations, volumes that a test provides or refuses, and
//! the reports of the node.
//!
//! It refuses what the server refuses: mounts and reports of an allocation whose end was reported. An end takes the
//! allocation off the list.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use async_trait::async_trait;
use tokio::sync::watch;

use nomad_csi_model::{AllocId, AllocReport, PluginId, VolumeAlias};
use nomad_csi_ports::{
    AssignedAlloc, AssignedAllocs, ControlPlane, ControlPlaneError, LostMount, MountDelay,
    MountRefused, UnreadableAlloc,
};

/// The server in memory.
#[derive(Debug, Default)]
pub struct FakeControlPlane(watch::Sender<State>);

#[derive(Debug, Default)]
struct State {
    /// Grows with every change of the list or of a volume.
    revision: u64,
    /// The revision at the last attempt to mount.
    refused_at: BTreeMap<(AllocId, VolumeAlias), u64>,
    allocs: BTreeMap<AllocId, AssignedAlloc>,
    /// Those of them whose job cannot be opened.
    unreadable: BTreeSet<AllocId>,
    /// The newest first.
    ended: Vec<AllocId>,
    left_plugins: Vec<(AllocId, PluginId)>,
    targets: BTreeMap<VolumeAlias, PathBuf>,
    refusals: BTreeMap<VolumeAlias, (String, bool)>,
    /// What holds up the mounts of a volume.
    delays: BTreeMap<VolumeAlias, MountDelay>,
    mounts: Vec<(AllocId, VolumeAlias)>,
    reports: Vec<(AllocId, AllocReport)>,
    refused_reports: u32,
    lost: Vec<LostMount>,
    cut_off: Vec<(AllocId, VolumeAlias)>,
}

impl FakeControlPlane {
    /// Adds an allocation to the list, or replaces it.
    pub fn assign(&self, alloc: AssignedAlloc) {
        self.change(|state| {
            state.allocs.insert(alloc.id.clone(), alloc);
        });
    }

    /// Loses the job of an allocation: it cannot be opened from now on.
    pub fn lose_job(&self, alloc: &AllocId) {
        self.change(|state| {
            state.unreadable.insert(alloc.clone());
        });
    }

    /// Ends an allocation without a report of its processes: they are left, and so are its plugins on record.
    pub fn leave(&self, alloc: &AllocId) {
        self.change(|state| {
            if let Some(left) = state.allocs.remove(alloc) {
                let plugins = left.plugins().map(|plugin| (alloc.clone(), plugin.clone()));
                state.left_plugins.extend(plugins);
                state.ended.insert(0, alloc.clone());
            }
        });
    }

    /// Requests the end of an allocation.
    pub fn stop(&self, alloc: &AllocId) {
        self.change(|state| {
            if let Some(alloc) = state.allocs.get_mut(alloc) {
                alloc.wants_stop = true;
            }
        });
    }

    /// Cuts an allocation off from a volume.
    pub fn cut_off(&self, alloc: &AllocId, alias: &str) {
        self.change(|state| {
            if let Some(alloc) = state.allocs.get_mut(alloc) {
                alloc.cut_off.insert(alias.into());
            }
        });
    }

    /// Waits until the node has given this many volumes back after a cut-off, and returns them in order.
    pub async fn wait_for_given_back(&self, number: usize) -> Vec<(AllocId, VolumeAlias)> {
        let mut changes = self.0.subscribe();
        let noted = changes.wait_for(|state| state.cut_off.len() >= number).await;
        noted.map(|state| state.cut_off.clone()).unwrap_or_default()
    }

    /// Requests the end of an allocation, and adds the one that replaces it.
    pub fn replace(&self, alloc: &AllocId, next: AssignedAlloc) {
        self.change(|state| {
            if let Some(alloc) = state.allocs.get_mut(alloc) {
                alloc.wants_stop = true;
            }
            state.allocs.insert(next.id.clone(), next);
        });
    }

    /// Forgets an allocation.
    pub fn forget(&self, alloc: &AllocId) {
        self.change(|state| {
            state.allocs.remove(alloc);
            state.ended.retain(|ended| ended != alloc);
        });
    }

    /// Provides a volume under this name for every allocation.
    pub fn provide(&self, alias: &str, target: PathBuf) {
        self.change(|state| {
            state.refusals.remove(&VolumeAlias::from(alias));
            state.delays.remove(&VolumeAlias::from(alias));
            state.targets.insert(alias.into(), target);
        });
    }

    /// Refuses a volume under this name.
    pub fn refuse(&self, alias: &str, message: &str, is_final: bool) {
        self.change(|state| {
            let refusal = (message.to_owned(), is_final);
            state.refusals.insert(alias.into(), refusal);
        });
    }

    /// Holds up the mounts of a volume until it is provided.
    pub fn delay(&self, alias: &str, delay: MountDelay) {
        self.change(|state| {
            state.delays.insert(alias.into(), delay);
        });
    }

    /// Fails the next reports.
    pub fn refuse_reports(&self, number: u32) {
        self.0.send_modify(|state| state.refused_reports = number);
    }

    /// Returns the mounts that were requested, in order.
    pub fn mounts(&self) -> Vec<(AllocId, VolumeAlias)> {
        self.0.borrow().mounts.clone()
    }

    /// Returns the mounts that the node noted as lost, in order.
    pub fn lost(&self) -> Vec<LostMount> {
        self.0.borrow().lost.clone()
    }

    /// Waits until the node has noted this many mounts as lost.
    pub async fn wait_for_losses(&self, number: usize) -> Vec<LostMount> {
        let mut changes = self.0.subscribe();
        let noted = changes.wait_for(|state| state.lost.len() >= number).await;
        noted.map(|state| state.lost.clone()).unwrap_or_default()
    }

    /// Returns the reports that were accepted, in order.
    pub fn reports(&self, alloc: &AllocId) -> Vec<AllocReport> {
        let state = self.0.borrow();
        let own = state.reports.iter().filter(|(id, _)| id == alloc);
        own.map(|(_, report)| report.clone()).collect()
    }

    /// Waits until a report of the allocation is like this, and returns it. Checks every report that was accepted.
    pub async fn wait_for_report(
        &self,
        alloc: &AllocId,
        is_meant: impl Fn(&AllocReport) -> bool,
    ) -> AllocReport {
        let mut changes = self.0.subscribe();
        loop {
            let reports = self.reports(alloc);
            if let Some(report) = reports.into_iter().find(|report| is_meant(report)) {
                return report;
            }
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        self.0.send_modify(|state| {
            change(state);
            state.revision += 1;
        });
    }
}

#[async_trait]
impl ControlPlane for FakeControlPlane {
    async fn assigned(&self, after: Option<u64>) -> Result<AssignedAllocs, ControlPlaneError> {
        let mut changes = self.0.subscribe();
        let state = changes.wait_for(|state| after != Some(state.revision)).await;
        let state = state.map_err(|_| ControlPlaneError::Stopping)?;
        let allocs = state.allocs.values().cloned();
        let (unreadable, allocs): (Vec<_>, _) =
            allocs.partition(|alloc| state.unreadable.contains(&alloc.id));
        let unreadable = unreadable.into_iter().map(|alloc| UnreadableAlloc {
            plugins: alloc.plugins().cloned().collect(),
            id: alloc.id,
            wants_stop: alloc.wants_stop,
            cut_off: alloc.cut_off,
            reason: "its job is lost".to_owned(),
        });
        Ok(AssignedAllocs {
            revision: state.revision,
            allocs,
            unreadable: unreadable.collect(),
            ended: state.ended.clone(),
            left_plugins: state.left_plugins.clone(),
        })
    }

    async fn mount(&self, alloc: &AllocId, alias: &VolumeAlias) -> Result<PathBuf, MountRefused> {
        let mut changes = self.0.subscribe();
        let free = changes.wait_for(|state| !state.delays.contains_key(alias)).await;
        drop(free);
        let mut answer = Err((format!("unknown volume `{alias}`"), true));
        self.0.send_modify(|state| {
            let key = (alloc.clone(), alias.clone());
            state.refused_at.insert(key, state.revision);
            state.mounts.push((alloc.clone(), alias.clone()));
            if !state.allocs.contains_key(alloc) {
                answer = Err((format!("unknown allocation `{alloc}`"), true));
            } else if let Some(refusal) = state.refusals.get(alias) {
                answer = Err(refusal.clone());
            } else if let Some(target) = state.targets.get(alias) {
                answer = Ok(target.clone());
            }
        });
        answer.map_err(|(message, is_final)| MountRefused { message, is_final })
    }

    async fn wait_for_mount_delay(
        &self,
        _: &AllocId,
        alias: &VolumeAlias,
        known: Option<&MountDelay>,
    ) -> Result<MountDelay, ControlPlaneError> {
        let mut changes = self.0.subscribe();
        let is_new = |state: &State| {
            let delay = state.delays.get(alias);
            delay.is_some() && delay != known
        };
        let state = changes.wait_for(is_new).await.map_err(|_| ControlPlaneError::Stopping)?;
        state.delays.get(alias).cloned().ok_or(ControlPlaneError::Stopping)
    }

    async fn wait_for_claim_change(
        &self,
        alloc: &AllocId,
        alias: &VolumeAlias,
    ) -> Result<(), ControlPlaneError> {
        let key = (alloc.clone(), alias.clone());
        let revision = self.0.borrow().refused_at.get(&key).copied();
        let mut changes = self.0.subscribe();
        let changed = changes.wait_for(|state| Some(state.revision) > revision).await;
        changed.map(|_| ()).map_err(|_| ControlPlaneError::Stopping)
    }

    async fn note_lost(&self, lost: &LostMount, _: &str) -> Result<(), ControlPlaneError> {
        self.change(|state| state.lost.push(lost.clone()));
        Ok(())
    }

    async fn note_cut_off(
        &self,
        alloc: &AllocId,
        alias: &VolumeAlias,
    ) -> Result<(), ControlPlaneError> {
        self.change(|state| state.cut_off.push((alloc.clone(), alias.clone())));
        Ok(())
    }

    async fn report(&self, alloc: &AllocId, report: AllocReport) -> Result<(), ControlPlaneError> {
        let mut answer = Ok(());
        self.0.send_modify(|state| {
            if state.refused_reports > 0 {
                state.refused_reports -= 1;
                answer = Err("the disk is full".to_owned());
            } else if !state.allocs.contains_key(alloc) {
                answer = Err(format!("unknown allocation `{alloc}`"));
            } else {
                if report.status.is_terminal() {
                    state.allocs.remove(alloc);
                    state.ended.insert(0, alloc.clone());
                    state.revision += 1;
                } else if let Some(assigned) = state.allocs.get_mut(alloc) {
                    assigned.report = Some(report.clone());
                }
                state.reports.push((alloc.clone(), report));
            }
        });
        answer.map_err(ControlPlaneError::Failed)
    }
}
