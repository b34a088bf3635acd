//! [`Etcd`]: what the journal needs of etcd.
//!
//! Each method is one request, except that reads may be repeated: a write whose answer was lost is repeated by its author
//! only, who knows what a second one would do.

use async_trait::async_trait;

use crate::error::EtcdError;

/// A key with its value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyValue {
    /// The key.
    pub key: Vec<u8>,
    /// The revision at which the key was created.
    pub create_revision: i64,
    /// The value; empty if only keys were asked for.
    pub value: Vec<u8>,
    /// The lease with which it ends; 0 is none.
    pub lease: i64,
}

/// What a transaction requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The key was created at this revision; 0 means that it does not exist.
    Created(Vec<u8>, i64),
    /// The key has this value.
    Value(Vec<u8>, Vec<u8>),
}

/// One operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Writes a key, with a lease or 0.
    Put { key: Vec<u8>, value: Vec<u8>, lease: i64 },
    /// Reads a key.
    Get { key: Vec<u8> },
    /// Removes the keys from the first, up to the second and without it.
    Delete { from: Vec<u8>, to: Vec<u8> },
}

/// Operations that are carried out together if all conditions hold, and others if not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// What must hold.
    pub conditions: Vec<Condition>,
    /// What is done then.
    pub success: Vec<Operation>,
    /// What is done otherwise.
    pub failure: Vec<Operation>,
}

/// The answer to a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransactionAnswer {
    /// Whether the conditions held.
    pub succeeded: bool,
    /// The revision after it.
    pub revision: i64,
    /// What each [`Operation::Get`] found, in order.
    pub found: Vec<Option<KeyValue>>,
}

/// A reading of neighbouring keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// The first key.
    pub from: Vec<u8>,
    /// The end, which is not part of it.
    pub to: Vec<u8>,
    /// The most keys; 0 is no limit.
    pub limit: i64,
    /// The revision at which to read; 0 is the newest.
    pub revision: i64,
    /// Whether values are left out.
    pub keys_only: bool,
}

/// The answer to a reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeAnswer {
    /// The keys in order.
    pub kvs: Vec<KeyValue>,
    /// Whether the limit left out others.
    pub more: bool,
    /// The newest revision of etcd.
    pub revision: i64,
}

/// A lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Its ID.
    pub id: i64,
    /// For how many seconds it lives without being renewed.
    pub seconds: i64,
}

/// What a member says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberStatus {
    /// Its address.
    pub member: String,
    /// Its ID.
    pub id: u64,
    /// The ID of the leader that it knows; 0 is none.
    pub leader: u64,
    /// The bytes of its file.
    pub size: u64,
    /// The quota; 0 if it does not say.
    pub quota: u64,
    /// Its version.
    pub version: String,
}

/// Reads one key. Returns the newest revision of etcd too.
pub(crate) async fn read_key(
    etcd: &dyn Etcd,
    key: Vec<u8>,
    revision: i64,
) -> Result<(Option<KeyValue>, i64), EtcdError> {
    let range = Range { to: after_key(&key), from: key, revision, ..Range::default() };
    let answer = etcd.range(range).await?;
    Ok((answer.kvs.into_iter().next(), answer.revision))
}

/// The most keys that one transaction removes.
const REMOVED: i64 = 1_000;

/// Returns the end of the first keys of a range that one transaction may remove; `None` if the range is empty.
pub(crate) async fn end_of_removal(
    etcd: &dyn Etcd,
    from: &[u8],
    to: &[u8],
) -> Result<Option<Vec<u8>>, EtcdError> {
    let (from, to) = (from.to_vec(), to.to_vec());
    let range = Range { from, to, limit: REMOVED, keys_only: true, ..Range::default() };
    Ok(etcd.range(range).await?.kvs.last().map(|last| after_key(&last.key)))
}

/// Returns the smallest key after this one.
pub(crate) fn after_key(key: &[u8]) -> Vec<u8> {
    [key, b"\0"].concat()
}

/// A client of etcd.
#[async_trait]
pub trait Etcd: Send + Sync {
    /// Returns the addresses for messages.
    fn addresses(&self) -> String;

    /// Sends a transaction to one member, once.
    async fn transact(&self, transaction: Transaction) -> Result<TransactionAnswer, EtcdError>;

    /// Reads keys, linearizably.
    async fn range(&self, range: Range) -> Result<RangeAnswer, EtcdError>;

    /// Forgets what was before this revision.
    async fn compact(&self, revision: i64) -> Result<(), EtcdError>;

    /// Creates a lease, at one member, once.
    async fn grant(&self, seconds: i64) -> Result<Lease, EtcdError>;

    /// Renews a lease, at one member, once. Returns for how many seconds; 0 or less if it has ended.
    async fn keep_alive(&self, lease: i64) -> Result<i64, EtcdError>;

    /// Ends a lease and removes its keys.
    async fn revoke(&self, lease: i64) -> Result<(), EtcdError>;

    /// Asks each member. One that does not answer is left out.
    async fn status(&self) -> Vec<MemberStatus>;

    /// Returns whether a member has the alarm that there is no space.
    async fn has_no_space_alarm(&self) -> Result<bool, EtcdError>;

    /// Gives the free space of a member's file back to its file system. It answers nothing else while it does.
    async fn defragment(&self, member: &str) -> Result<(), EtcdError>;

    /// Ends the alarms that there is no space.
    async fn disarm(&self) -> Result<(), EtcdError>;
}
