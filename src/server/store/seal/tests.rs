//! Sealing, opening, and missing or wrong keys.

use std::os::unix::fs::PermissionsExt as _;

use super::*;
use nomad_csi_claims::state::samples;
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{Namespace, VariableKey, VariablePath};

fn secrets() -> Secrets {
    Secrets::from_iter([("token", "hunter2"), ("empty", ""), ("ключ", "значение\u{0}\n")])
}

fn volume(namespace: &str, id: &str) -> SecretOwner {
    SecretOwner::Volume(samples::key(namespace, id))
}

fn variable(namespace: &str, path: &str) -> SecretOwner {
    let (namespace, path) = (Namespace::new(namespace), VariablePath::new(path));
    SecretOwner::Variable(VariableKey::new(namespace, path))
}

fn sealer_in(directory: &Path) -> KeySealer {
    KeySealer::open(&directory.join("key"), None).unwrap()
}

#[test]
fn sealed_secrets_open_for_their_own_owner_only() {
    let directory = tempfile::tempdir().unwrap();
    let sealer = sealer_in(directory.path());
    let db = volume("default", "db");
    let sealed = sealer.seal(&db, &secrets());
    assert!(sealer.open(&db, &sealed).unwrap() == secrets());
    for other in [
        volume("default", "web"),
        volume("prod", "db"),
        volume("defaul", "tdb"),
        variable("default", "db"),
    ] {
        assert_eq!(sealer.open(&other, &sealed).err(), Some(SealError), "{other}");
    }
}

#[test]
fn no_secrets_seal_to_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let sealer = sealer_in(directory.path());
    let db = volume("default", "db");
    let sealed = sealer.seal(&db, &Secrets::default());
    assert!(sealed.is_empty() && sealer.open(&db, &sealed).unwrap().is_empty());
}

#[test]
fn sealed_data_contains_no_secret_and_is_never_repeated() {
    let directory = tempfile::tempdir().unwrap();
    let sealer = sealer_in(directory.path());
    let db = volume("default", "db");
    let (one, other) = (sealer.seal(&db, &secrets()), sealer.seal(&db, &secrets()));
    assert_ne!(one, other);
    for text in ["hunter2", "token"] {
        let found = one.as_bytes().windows(text.len()).any(|w| w == text.as_bytes());
        assert!(!found, "{text}");
    }
}

#[test]
fn damaged_or_foreign_bytes_do_not_open() {
    let directory = tempfile::tempdir().unwrap();
    let sealer = sealer_in(directory.path());
    let db = volume("default", "db");
    let sealed = sealer.seal(&db, &secrets());
    for at in 0..sealed.as_bytes().len() {
        let mut bytes = sealed.as_bytes().to_vec();
        bytes[at] ^= 1;
        assert!(sealer.open(&db, &SealedSecrets::new(bytes)).is_err(), "byte {at}");
        let torn = sealed.as_bytes()[..at.max(1)].to_vec();
        assert!(sealer.open(&db, &SealedSecrets::new(torn)).is_err(), "{at} bytes");
    }
}

#[test]
fn the_key_is_created_once_with_mode_0600_and_used_again() {
    let directory = tempfile::tempdir().unwrap();
    let db = volume("default", "db");
    let sealed = sealer_in(directory.path()).seal(&db, &secrets());
    let again = KeySealer::open(&directory.path().join("key"), Some((&db, &sealed))).unwrap();
    assert!(again.open(&db, &sealed).unwrap() == secrets());
    let files: Vec<_> = std::fs::read_dir(directory.path()).unwrap().flatten().collect();
    let names: Vec<_> = files.iter().map(std::fs::DirEntry::file_name).collect();
    assert_eq!(names, ["key"], "no temporary file is left");
    let mode = files[0].metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
}

#[test]
fn sealed_secrets_without_their_key_are_refused_and_no_key_is_created() {
    let (home, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let db = volume("prod", "db");
    let sealed = sealer_in(elsewhere.path()).seal(&db, &secrets());
    let path = home.path().join("key");
    let missing = KeySealer::open(&path, Some((&db, &sealed))).err().unwrap();
    assert_eq!(missing.code(), Code::KeyMissing);
    assert!(missing.to_string().contains("`db` (namespace `prod`)"), "{missing}");
    assert!(!path.exists());
    drop(sealer_in(home.path()));
    let wrong = KeySealer::open(&path, Some((&db, &sealed))).err().unwrap();
    assert_eq!(wrong.code(), Code::KeyWrong);
}

#[test]
fn an_exposed_key_is_refused_with_the_command_to_fix_it() {
    for mode in [0o640, 0o604, 0o660, 0o620] {
        let directory = tempfile::tempdir().unwrap();
        drop(sealer_in(directory.path()));
        let path = directory.path().join("key");
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&path, permissions).unwrap();
        let exposed = KeySealer::open(&path, None).err().unwrap();
        assert_eq!(exposed.code(), Code::KeyExposed, "{mode:o}");
        let command = format!("(mode {mode:04o}); run `chmod 600 {}`", path.display());
        assert!(exposed.to_string().ends_with(&command), "{exposed}");
    }
}

#[test]
fn a_malformed_key_is_refused_and_not_replaced() {
    let digits = "0".repeat(64);
    for text in [
        "",
        "nomad-csi-key-1:",
        &format!("nomad-csi-key-1:{digits}"),
        &format!("nomad-csi-key-1:{}\n", &digits[1..]),
        &format!("nomad-csi-key-1:{}g\n", &digits[1..]),
        &format!("nomad-csi-key-2:{digits}\n"),
        "\u{fffd}",
    ] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let refused = KeySealer::open(&path, None).err().unwrap();
        assert_eq!(refused.code(), Code::KeyMalformed, "{text:?}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn agents_that_create_a_key_concurrently_get_the_same_key() {
    let directory = tempfile::tempdir().unwrap();
    let db = volume("default", "db");
    let sealed: Vec<_> = std::thread::scope(|scope| {
        let make = || scope.spawn(|| sealer_in(directory.path()).seal(&db, &secrets()));
        let threads: Vec<_> = (0..8).map(|_| make()).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let sealer = sealer_in(directory.path());
    assert!(sealed.iter().all(|sealed| sealer.open(&db, sealed).is_ok()));
}

#[test]
fn an_unusable_directory_is_named() {
    let refused = KeySealer::open(Path::new("/nonexistent/key"), None).err().unwrap();
    assert_eq!(refused.code(), Code::KeyUnavailable);
    assert_eq!(refused.to_string(), "cannot create the key file `/nonexistent/key`");
}
