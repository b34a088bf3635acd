//! `agent etcd reclaim`: gives space back to a full etcd. Needs no leader.
//!
//! Compacting and defragmenting each member, the one that leads etcd last, then ending the alarm: less than that is undone by
//! the next write.

use crate::api::{Etcd, MemberStatus, Range};
use crate::error::EtcdError;
use crate::keys::Keys;

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

/// Compacts etcd to its newest revision, defragments each member that answers, and ends the alarms.
///
/// # Errors
/// If a step fails. Those before it have been done, and all can be repeated.
pub async fn reclaim(etcd: &dyn Etcd, keys: &Keys) -> Result<Vec<Reclaimed>, EtcdError> {
    let (from, to) = keys.all();
    let range = Range { from, to, limit: 1, keys_only: true, ..Range::default() };
    let revision = etcd.range(range).await?.revision;
    if let Err(error) = etcd.compact(revision).await
        && error.kind != crate::error::EtcdErrorKind::Compacted
    {
        return Err(error);
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
