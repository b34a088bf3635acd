//! The ledger in Nomad variables: concurrent writers, lost responses, locks, old servers and weak
//! tokens.

use nomad_csi_client::nomad::NomadLedger;
use nomad_csi_client::ports::{Ledger as _, LedgerError, LedgerFailure, LockHolder};
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{Namespace, NamespacedId, Secrets, VolumeId};
use nomad_csi_plan::{Actor, LedgerKey, LedgerSet, Ownership, SetName, StoredSet};

use super::client_requests::request;
use crate::support::http_server::{Server, json, text};
use crate::support::variables::{Fault, Variables};

fn name() -> SetName {
    SetName::parse("web").expect("the name is valid")
}

fn holder(user: &str) -> LockHolder {
    LockHolder {
        by: Actor {
            user: user.into(),
            host: "build-7".into(),
            process: 7,
            command: "apply".into(),
        },
        since: 5,
        process: None,
    }
}

fn key(id: &str) -> NamespacedId {
    NamespacedId::new(Namespace::default(), VolumeId::new(id))
}

fn empty() -> LedgerSet {
    LedgerSet::new(name(), LedgerKey::new([3; 32]))
}

fn owning(ids: std::ops::Range<u32>) -> LedgerSet {
    let mut set = empty();
    for id in ids {
        set.own(key(&format!("volume-{id}")), Ownership::default());
    }
    set
}

async fn serve(variables: &Variables) -> (Server, NomadLedger) {
    let shared = variables.clone();
    let server = Server::start(move |seen, _| shared.serve(seen)).await;
    let ledger = server.client().ledger(Namespace::default());
    (server, ledger)
}

async fn save(
    ledger: &NomadLedger,
    set: &LedgerSet,
    stored: &mut StoredSet,
    save: &str,
) -> Result<(), LedgerError> {
    let changes = set.changes(stored, save).expect("the changes fit");
    ledger.write(&name(), stored, changes).await
}

async fn read(ledger: &NomadLedger) -> (StoredSet, LedgerSet) {
    let stored = ledger.read(&name()).await.expect("the read succeeds");
    let set = LedgerSet::read(name(), &stored, LedgerKey::new([9; 32])).expect("the lock is held");
    (stored, set)
}

#[tokio::test]
async fn a_set_of_many_shards_is_read_back_and_shrinks() {
    let variables = Variables::new();
    let (_server, ledger) = serve(&variables).await;
    let mut stored = StoredSet::default();
    save(&ledger, &owning(0..4_000), &mut stored, "1").await.expect("the write succeeds");
    let (read_back, set) = read(&ledger).await;
    assert_eq!((&read_back, &set), (&stored, &owning(0..4_000)));
    assert!(stored.shards.len() > 3, "{}", stored.shards.len());
    save(&ledger, &owning(0..5), &mut stored, "2").await.expect("the write succeeds");
    assert_eq!(stored.shards.len(), 2);
    assert_eq!(read(&ledger).await, (stored, owning(0..5)));
    let sets = ledger.sets().await.expect("the list succeeds");
    assert_eq!(sets.into_iter().collect::<Vec<_>>(), [name()]);
}

/// The head is the condition of the whole write. What other shards replace is removed last.
#[tokio::test]
async fn a_write_begins_with_the_head_and_ends_with_removals() {
    let variables = Variables::new();
    let (server, ledger) = serve(&variables).await;
    let mut stored = StoredSet::default();
    let mut sent = vec![];
    for (number, volumes) in [4_000, 5].into_iter().enumerate() {
        save(&ledger, &owning(0..volumes), &mut stored, &number.to_string())
            .await
            .expect("the write succeeds");
        let mut lines = vec![];
        for seen in server.requests() {
            lines.push(seen.line());
        }
        sent.push(lines);
    }
    let (first, second) = (&sent[0], &sent[1][sent[0].len()..]);
    for lines in [first, second] {
        let head = "PUT /v1/var/nomad-csi/sets/web/head?";
        assert!(lines[0].starts_with(head), "{}", lines[0]);
    }
    let removed = second.iter().position(|line| line.starts_with("DELETE"));
    let (written, removed) = second.split_at(removed.expect("shards are removed"));
    assert!(written.iter().all(|line| line.starts_with("PUT")));
    assert!(removed.iter().all(|line| line.starts_with("DELETE")));
    assert!(removed.len() > 3, "{removed:?}");
}

/// Hashes hardly shrink, so compressing them would cost the server more than it saves.
#[tokio::test]
async fn shards_are_not_compressed() {
    let variables = Variables::new();
    let (server, ledger) = serve(&variables).await;
    let mut stored = StoredSet::default();
    save(&ledger, &owning(0..5), &mut stored, "1").await.expect("the write succeeds");
    read(&ledger).await;
    for seen in server.requests() {
        let is_list = seen.line().starts_with("GET /v1/vars?");
        let expected = if is_list { "gzip" } else { "identity" };
        assert_eq!(seen.header("accept-encoding"), Some(expected), "{}", seen.line());
    }
}

/// A first writer may write between the list of variables and the read of the head.
#[tokio::test]
async fn a_set_written_during_a_read_is_read_again() {
    let variables = Variables::new();
    let (_server, ledger) = serve(&variables).await;
    let mut stored = StoredSet::default();
    save(&ledger, &owning(0..2), &mut stored, "1").await.expect("the write succeeds");
    let server = Server::start(move |seen, number| match number {
        0 => json("[]"),
        _ => variables.serve(seen),
    })
    .await;
    let ledger = server.client().ledger(Namespace::default());
    assert_eq!(read(&ledger).await, (stored, owning(0..2)));
}

#[tokio::test]
async fn only_one_of_two_concurrent_writers_writes() {
    let variables = Variables::new();
    let (_server, ledger) = serve(&variables).await;
    let (mut first, mut second) = (StoredSet::default(), StoredSet::default());
    save(&ledger, &owning(0..2), &mut first, "1").await.expect("the write succeeds");
    let refused = save(&ledger, &owning(5..9), &mut second, "2").await;
    assert_eq!(refused.expect_err("the write conflicts").failure, LedgerFailure::Conflict);
    assert_eq!(second, StoredSet::default());
    assert_eq!(read(&ledger).await, (first, owning(0..2)));
}

/// After a lost response, the client reads the variable and repeats a lost request.
#[tokio::test]
async fn a_lost_response_is_resolved_by_reading() {
    use Fault::{ReplyLost, RequestLost};
    for faults in [&[ReplyLost][..], &[RequestLost], &[RequestLost, ReplyLost, RequestLost]] {
        let variables = Variables::new();
        let (server, ledger) = serve(&variables).await;
        variables.fail_next_writes(faults);
        let mut stored = StoredSet::default();
        let saved = save(&ledger, &owning(0..2), &mut stored, "1").await;
        assert_eq!(saved, Ok(()), "{faults:?}: {:?}", server.requests());
        assert_eq!(read(&ledger).await, (stored.clone(), owning(0..2)));
        variables.fail_next_writes(faults);
        let emptied = save(&ledger, &empty(), &mut stored, "2").await;
        assert_eq!(emptied, Ok(()), "{faults:?}");
        assert_eq!(read(&ledger).await, (stored, empty()));
    }
}

#[tokio::test]
async fn repeatedly_lost_responses_give_an_unknown_outcome() {
    let variables = Variables::new();
    let (_server, ledger) = serve(&variables).await;
    variables.fail_next_writes(&[Fault::RequestLost; 9]);
    let refused = save(&ledger, &owning(0..2), &mut StoredSet::default(), "1").await;
    let refused = refused.expect_err("the outcome is unknown");
    assert_eq!(refused.failure, LedgerFailure::OutcomeUnknown);
}

#[tokio::test]
async fn a_locked_set_names_its_holder_and_an_expired_lock_is_lost() {
    let variables = Variables::new();
    let (_server, ledger) = serve(&variables).await;
    let ada = ledger.lock(&name(), &holder("ada")).await.expect("the lock is free");
    ada.renew().await.expect("the lock is held");
    let Err(refused) = ledger.lock(&name(), &holder("bo")).await else {
        panic!("two commands hold the lock");
    };
    assert_eq!(refused.failure, LedgerFailure::Locked(Some(Box::new(holder("ada")))));
    variables.expire_locks();
    let bo = ledger.lock(&name(), &holder("bo")).await.expect("the lock has expired");
    let lost = ada.renew().await.expect_err("another command holds the lock");
    assert_eq!(lost.failure, LedgerFailure::LockLost);
    let lost = ada.release().await.expect_err("another command holds the lock");
    assert_eq!(lost.failure, LedgerFailure::LockLost);
    bo.release().await.expect("the lock is held");
    let again = ledger.lock(&name(), &holder("ada")).await;
    drop(again.expect("the lock is free"));
    assert!(ledger.read(&name()).await.expect("the read succeeds").is_empty());
}

/// A command whose acquire has a lost response does not wait for its own lock.
#[tokio::test]
async fn a_lock_survives_lost_responses() {
    use Fault::{ReplyLost, RequestLost};
    for faults in [&[ReplyLost][..], &[RequestLost, ReplyLost]] {
        let variables = Variables::new();
        let (_server, ledger) = serve(&variables).await;
        variables.fail_next_writes(faults);
        let ada = ledger.lock(&name(), &holder("ada")).await;
        let ada = ada.expect("the lock is free");
        ada.renew().await.expect("the lock is held");
        let Err(refused) = ledger.lock(&name(), &holder("bo")).await else {
            panic!("two commands hold the lock");
        };
        assert!(matches!(refused.failure, LedgerFailure::Locked(Some(_))));
        variables.fail_next_writes(faults);
        assert_eq!(ada.release().await, Ok(()), "{faults:?}");
        let bo = ledger.lock(&name(), &holder("bo")).await;
        drop(bo.expect("the lock is free"));
    }
}

#[tokio::test]
async fn the_error_of_an_old_server_names_alternatives() {
    let before_1_4 = Server::always(text(404, "")).await;
    let ledger = before_1_4.client().ledger(Namespace::default());
    let refused = ledger.read(&name()).await.expect_err("the server has no variables");
    assert_eq!(refused.failure, LedgerFailure::Unsupported);
    assert_eq!(
        refused.message,
        "cannot keep the ledger in Nomad variables: the server has no variables; they require Nomad 1.4 or later"
    );
    let help = refused.diagnostic().help.join(" ");
    assert!(help.contains("--ledger file:PATH") && help.contains("--ledger none"), "{help}");

    let variables = Variables::new().without_locks();
    let (_server, ledger) = serve(&variables).await;
    let Err(refused) = ledger.lock(&name(), &holder("ada")).await else {
        panic!("the server has no locks");
    };
    assert_eq!(refused.failure, LedgerFailure::Unsupported);
    // Such a server writes the variable without a lock, as Nomad 1.6.10 does.
    assert_eq!(variables.texts(), [""; 0], "no variable remains");
}

#[tokio::test]
async fn the_error_of_a_weak_token_names_the_policy() {
    let server = Server::always(text(403, "Permission denied")).await;
    let ledger = server.client().ledger(Namespace::new("ops"));
    let refused = ledger.read(&name()).await.expect_err("the token is too weak");
    assert_eq!((refused.failure, refused.code), (LedgerFailure::Forbidden, Code::ApiForbidden));
    assert!(
        refused.help[0].contains(r#"namespace "ops" { variables { path "nomad-csi/sets/*""#),
        "{:?}",
        refused.help
    );

    let variables = Variables::new();
    let (_server, ledger) = serve(&variables).await;
    save(&ledger, &owning(0..2), &mut StoredSet::default(), "1").await.expect("the write succeeds");
    let (_server, ledger) = serve(&variables.clone().without_list()).await;
    let refused = ledger.read(&name()).await.expect_err("it would see nothing");
    assert_eq!(refused.failure, LedgerFailure::Forbidden);
}

#[tokio::test]
async fn variables_contain_no_secrets_or_mount_flags() {
    let variables = Variables::new();
    let (server, ledger) = serve(&variables).await;
    let mut desired = request("db0");
    desired.secrets = Some(Secrets::from_iter([("token", "canary-secret-5c1d")]));
    desired.mount_options = Some(nomad_csi_model::MountOptions {
        fs_type: "ext4".into(),
        mount_flags: vec!["password=canary-flag-9f3e".into()],
    });
    let mut set = empty();
    set.record_applied(&desired);
    save(&ledger, &set, &mut StoredSet::default(), "1").await.expect("the write succeeds");
    let sent = server.requests().into_iter().map(|seen| seen.body);
    for text in sent.chain(variables.texts()) {
        assert!(!text.contains("canary"), "{text}");
    }
}
