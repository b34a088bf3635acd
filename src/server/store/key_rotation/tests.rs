//! The file at each step, and what opens then.

use super::*;
use nomad_csi_claims::state::samples::key;
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::private::temporary_in;

fn secrets() -> Secrets {
    Secrets::from_iter([("token", "hunter2")])
}

fn owner() -> SecretOwner {
    SecretOwner::Volume(key("default", "db"))
}

fn opens(path: &Path, sealed: &SealedSecrets) -> bool {
    let sealer = KeySealer::open(path, None).unwrap();
    sealer.open(&owner(), sealed).is_ok()
}

#[test]
fn both_keys_open_until_the_end_and_then_only_the_new_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key");
    let sealer = KeySealer::open(&path, None).unwrap();
    let old = sealer.seal(&owner(), &secrets());
    let fingerprint = sealer.fingerprint(&secrets());
    let rotation = KeyRotation::begin(&path).unwrap();
    let between = KeySealer::open(&path, Some((&owner(), &old))).unwrap();
    assert!(between.is_in_rotation());
    assert_eq!(between.fingerprint(&secrets()), fingerprint);
    let new = rotation.secrets(&owner(), &old).unwrap();
    let written = between.seal(&owner(), &secrets());
    for sealed in [&old, &new, &written] {
        assert!(opens(&path, sealed));
    }
    let verification = rotation.verification();
    assert!(verification.secrets(&owner(), &new).is_ok());
    let refused = verification.secrets(&owner(), &old).unwrap_err();
    assert_eq!(refused.to_string(), "cannot decrypt the secrets of volume `db`");
    rotation.finish().unwrap();
    assert!(!opens(&path, &old), "the old key is gone");
    assert!(opens(&path, &new) && opens(&path, &written));
    let after = KeySealer::open(&path, None).unwrap();
    assert!(!after.is_in_rotation());
    assert_ne!(after.fingerprint(&secrets()), fingerprint);
}

#[test]
fn an_interrupted_rotation_goes_on_with_its_key_and_leaves_no_copy() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key");
    drop(KeySealer::open(&path, None).unwrap());
    drop(KeyRotation::begin(&path).unwrap());
    let interrupted = std::fs::read_to_string(&path).unwrap();
    temporary_in(directory.path()).unwrap().keep().unwrap();
    let rotation = KeyRotation::begin(&path).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), interrupted);
    rotation.finish().unwrap();
    let left = std::fs::read_to_string(&path).unwrap();
    assert_eq!(left, interrupted.split_inclusive('\n').next().unwrap());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn flags_get_the_fingerprint_of_the_new_key() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key");
    let sealer = KeySealer::open(&path, None).unwrap();
    let flags = SealedFlags {
        sealed: sealer.seal(&owner(), &secrets()),
        fingerprint: sealer.fingerprint(&secrets()),
    };
    let rotation = KeyRotation::begin(&path).unwrap();
    let after = rotation.flags(&owner(), &flags).unwrap();
    assert!(rotation.verification().flags(&owner(), &after).is_ok());
    let old_fingerprint = SealedFlags { fingerprint: flags.fingerprint.clone(), ..after.clone() };
    let verified = rotation.verification().flags(&owner(), &old_fingerprint);
    assert!(verified.is_err(), "the fingerprint is of the old key");
    rotation.finish().unwrap();
    let sealer = KeySealer::open(&path, None).unwrap();
    assert_eq!(after.fingerprint, sealer.fingerprint(&secrets()));
    assert!(sealer.open(&owner(), &after.sealed).unwrap() == secrets());
}

#[test]
fn without_a_key_nothing_is_rotated_and_a_damaged_file_stays() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key");
    let refused = KeyRotation::begin(&path).err().unwrap();
    assert!(matches!(refused, KeyError::Unavailable { .. }), "{refused}");
    assert!(KeySealer::open_existing(&path).unwrap().is_none());
    drop(KeySealer::open(&path, None).unwrap());
    let line = std::fs::read_to_string(&path).unwrap();
    for text in [format!("{line}\n"), format!("{line}{line}{line}"), format!("{line}x")] {
        std::fs::write(&path, &text).unwrap();
        let refused = KeyRotation::begin(&path).err().unwrap();
        assert_eq!(refused.code(), Code::KeyMalformed, "{text:?}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
}
