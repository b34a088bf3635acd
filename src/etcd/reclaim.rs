//! `agent etcd reclaim`: gives space back to a full etcd. Needs no leader.
//!
//! Removing the events that a snapshot has replaced, compacting, defragmenting each member, the one that leads etcd last, then
//! ending the alarm: less than that is undone by the next write. A leader never reads such events again, so it may run.

use crate::api::{Etcd, MemberStatus, Operation, Transaction, end_of_removal, read_key};
use crate::error::{EtcdError, EtcdErrorKind};
use crate::keys::Keys;
use crate::manifest::Manifest;

/// What was given back at one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reclaimed {
    /// The address of the member.
    pub member: String,
    /// The bytes of its file before.
    pub before: u64,
    /// The bytes of its file after.
    pub after: u64,
}

/// Removes what is not needed, compacts etcd to its newest revision, defragments each member that answers, and ends the alarms.
///
/// # Errors
/// If a step fails. Those before it have been done, and all can be repeated.
pub async fn reclaim(etcd: &dyn Etcd, keys: &Keys) -> Result<Vec<Reclaimed>, EtcdError> {
    let (manifest, _) = read_key(etcd, keys.snapshots(), 0).await?;
    if let Some(index) = Manifest::read(manifest.as_ref()).and_then(|manifest| manifest.index()) {
        // A snapshot ends with a batch, so no batch before has events after it.
        remove(etcd, keys.log(0), keys.log(index + 1)).await?;
        remove(etcd, keys.parts_from(0), keys.parts_from(index + 1)).await?;
    }
    let (_, revision) = read_key(etcd, keys.head(), 0).await?;
    match etcd.compact(revision).await {
        Err(error) if error.kind != EtcdErrorKind::Compacted => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut members = etcd.status().await;
    members.sort_by_key(|member| member.id == member.leader);
    for member in &members {
        etcd.defragment(&member.member).await?;
    }
    etcd.disarm().await?;
    let after = etcd.status().await;
    let size_of = |member: &MemberStatus| {
        after.iter().find(|one| one.member == member.member).map_or(member.size, |one| one.size)
    };
    let reclaimed = members.iter().map(|member| Reclaimed {
        member: member.member.clone(),
        before: member.size,
        after: size_of(member),
    });
    Ok(reclaimed.collect())
}

async fn remove(etcd: &dyn Etcd, mut from: Vec<u8>, to: Vec<u8>) -> Result<(), EtcdError> {
    while let Some(end) = end_of_removal(etcd, &from, &to).await? {
        let success = vec![Operation::Delete { from, to: end.clone() }];
        etcd.transact(Transaction { success, ..Transaction::default() }).await?;
        from = end;
    }
    Ok(())
}
