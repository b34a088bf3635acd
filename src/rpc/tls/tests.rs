//! Tests of the certificates and their files.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use nomad_csi_ports::SystemClock;
use nomad_csi_testing::FakeClock;

use super::authority::Authority;
use super::cluster_tls::{ClusterTls, ClusterTlsFiles, read_certificates};
use super::role::Role;
use super::samples::{REGION, authority, files};

const DAY: i64 = 86_400 * 1_000_000_000;

fn mode(file: &Path) -> u32 {
    std::fs::metadata(file).unwrap().permissions().mode() & 0o777
}

fn load(files: &ClusterTlsFiles, role: Role) -> Result<ClusterTls, String> {
    ClusterTls::load(files, role, REGION, &SystemClock).map_err(|error| error.to_string())
}

/// Midday of a day.
const NOW: i64 = 20_000 * DAY + DAY / 2;

/// A clock that is this many days away from [`NOW`].
fn clock(days: i64) -> FakeClock {
    FakeClock::at(NOW + days * DAY)
}

#[test]
fn keys_are_for_this_user_only_and_no_file_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let made = authority(directory.path());
    let issued = made.issue(Role::Node, "n1", REGION, &SystemClock).unwrap();
    let authority_key = directory.path().join("ca-key.pem");
    assert_eq!((mode(&issued.key), mode(&authority_key)), (0o600, 0o600));
    let contents = || {
        let files = [&issued.key, &issued.certificate, &authority_key, &made.certificate_file()];
        files.map(|file| std::fs::read(file).unwrap())
    };
    let before = contents();
    let again = Authority::create(directory.path(), &SystemClock).unwrap_err();
    assert!(again.to_string().contains("it exists already"), "{again}");
    let again = made.issue(Role::Node, "n1", REGION, &SystemClock).unwrap_err();
    assert!(again.to_string().contains("n1.pem"), "{again}");
    std::fs::remove_file(&issued.certificate).unwrap();
    let again = made.issue(Role::Node, "n1", REGION, &SystemClock).unwrap_err();
    assert!(again.to_string().contains("n1-key.pem"), "{again}");
    assert!(!issued.certificate.exists());
    std::fs::write(&issued.certificate, &before[1]).unwrap();
    assert_eq!(contents(), before);
}

#[test]
fn a_name_that_is_no_file_name_or_that_of_another_file_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let made = authority(directory.path());
    let long = "n".repeat(64);
    for name in ["", "..", "../n1", "a/b", ".n", "ca", "ca-key", "n1-key", "n 1", "n\n", &long] {
        let refused = made.issue(Role::Node, name, REGION, &SystemClock);
        assert!(refused.is_err(), "{name:?}");
    }
    for region in ["", "a.b", "*", "a b", "-"] {
        assert!(made.issue(Role::Node, "n1", region, &SystemClock).is_err(), "{region:?}");
    }
    let left = std::fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(left, 2, "only the files of the authority");
    made.issue(Role::Node, "N1.example_com-2", REGION, &SystemClock).unwrap();
}

/// A server has the addresses under which clients reach it, and no address says a role.
#[test]
fn a_server_has_its_addresses_and_no_other_role() {
    let directory = tempfile::tempdir().unwrap();
    let made = Authority::create(&directory.path().join("tls"), &SystemClock).unwrap();
    let issue = |name: &str, addresses: &[&str]| {
        let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        made.issue_with_addresses(Role::Server, name, REGION, &addresses, &SystemClock)
    };
    let issued = issue("s1", &["10.0.0.1", "fd00::1", "s1.example"]).unwrap();
    let own = read_certificates(&issued.certificate).unwrap().remove(0);
    assert!(Role::Server.is_in(REGION, &own) && !Role::Node.is_in(REGION, &own));
    let parsed = rustls::server::ParsedCertificate::try_from(&own).unwrap();
    for (address, expected) in [
        ("10.0.0.1", true),
        ("fd00::1", true),
        ("s1.example", true),
        ("s2.example", false),
        ("10.0.0.2", false),
    ] {
        let name = rustls::pki_types::ServerName::try_from(address).unwrap();
        let verified = rustls::client::verify_server_name(&parsed, &name);
        assert_eq!(verified.is_ok(), expected, "{address}");
    }
    for address in [
        "",
        "https://s1",
        "10.0.0.1:4646",
        "a b",
        "*.example",
        "node.global.nomad-csi",
        "NODE.global.NOMAD-CSI.",
    ] {
        let refused = issue("s2", &["10.0.0.1", address]).unwrap_err();
        assert!(refused.reason.contains("cannot be an address of a server"), "{address}");
    }
}

#[test]
fn a_certificate_has_its_role_in_its_region_and_no_other_one() {
    let directory = tempfile::tempdir().unwrap();
    let made = authority(directory.path());
    for role in Role::ALL {
        let files = files(&made, role, role.as_str(), &SystemClock);
        for asked in Role::ALL {
            assert_eq!(load(&files, asked).is_ok(), asked == role, "{role:?} as {asked:?}");
        }
        let elsewhere = ClusterTls::load(&files, role, "other", &SystemClock).unwrap_err();
        let elsewhere = elsewhere.to_string();
        assert!(elsewhere.contains(".other.nomad-csi"), "{elsewhere}");
        let command = format!("agent tls {} NAME --cluster-region other", role.as_str());
        assert_eq!(elsewhere.contains(&command), role != Role::Client, "{elsewhere}");
    }
}

#[test]
fn two_authorities_in_one_file_are_both_trusted_and_a_third_is_not() {
    let directories: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    let made: Vec<_> = directories.iter().map(|one| authority(one.path())).collect();
    let both = directories[2].path().join("both.pem");
    let text = |one: &Authority| std::fs::read_to_string(one.certificate_file()).unwrap();
    std::fs::write(&both, text(&made[0]) + &text(&made[1])).unwrap();
    for (number, issuer) in made.iter().enumerate() {
        let files = files(issuer, Role::Node, "n1", &SystemClock);
        let files = ClusterTlsFiles { authorities: both.clone(), ..files };
        let loaded = load(&files, Role::Node);
        assert_eq!(loaded.is_ok(), number < 2, "{number}: {loaded:?}");
        if let Err(error) = loaded {
            assert!(error.contains("none of the authorities"), "{error}");
        }
    }
}

#[test]
fn an_error_names_the_file_the_reason_and_the_remedy() {
    let directory = tempfile::tempdir().unwrap();
    let made = authority(directory.path());
    let good = files(&made, Role::Node, "n1", &SystemClock);
    let other = files(&made, Role::Node, "n2", &SystemClock);
    let at = |name: &str| directory.path().join(name);
    std::fs::write(at("empty.pem"), "").unwrap();
    std::fs::write(at("large.pem"), vec![b'a'; (1 << 20) + 1]).unwrap();
    let readable = at("readable-key.pem");
    std::fs::copy(&good.key, &readable).unwrap();
    std::fs::set_permissions(&readable, std::fs::Permissions::from_mode(0o640)).unwrap();
    let writable = at("writable.pem");
    std::fs::copy(&good.certificate, &writable).unwrap();
    std::fs::set_permissions(&writable, std::fs::Permissions::from_mode(0o666)).unwrap();
    let missing = at("missing.pem");
    let cases = [
        (ClusterTlsFiles { key: other.key, ..good.clone() }, "it is not the key of"),
        (ClusterTlsFiles { key: readable, ..good.clone() }, "mode 0640"),
        (ClusterTlsFiles { key: at("empty.pem"), ..good.clone() }, "other users"),
        (ClusterTlsFiles { key: missing.clone(), ..good.clone() }, "cannot read"),
        (ClusterTlsFiles { certificate: missing.clone(), ..good.clone() }, "missing.pem"),
        (ClusterTlsFiles { certificate: at("empty.pem"), ..good.clone() }, "no certificate"),
        (ClusterTlsFiles { certificate: writable, ..good.clone() }, "writable.pem"),
        (ClusterTlsFiles { authorities: missing, ..good.clone() }, "missing.pem"),
        (ClusterTlsFiles { authorities: at("large.pem"), ..good.clone() }, "1 MiB"),
        (ClusterTlsFiles { authorities: at("empty.pem"), ..good.clone() }, "no certificate"),
    ];
    for (files, text) in cases {
        let error = load(&files, Role::Node).unwrap_err();
        assert!(error.contains(text), "{error}");
    }
    load(&good, Role::Node).unwrap();
}

#[test]
fn an_expired_certificate_and_one_of_an_expired_authority_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let made = Authority::create(directory.path(), &clock(-3_649)).unwrap();
    let load = |days, name| {
        let files = files(&made, Role::Node, name, &clock(days));
        let loaded = ClusterTls::load(&files, Role::Node, REGION, &clock(0));
        loaded.map_err(|error| error.to_string())
    };
    load(-364, "old").unwrap();
    let error = load(-366, "expired").unwrap_err();
    assert!(error.contains("has expired"), "{error}");
    let error = load(1, "early").unwrap_err();
    assert!(error.contains("not valid yet"), "{error}");
    let error = made.issue(Role::Node, "n1", REGION, &clock(2)).unwrap_err();
    assert!(error.to_string().contains("valid"), "{error}");
}

#[test]
fn the_days_left_are_those_of_the_certificate_or_of_its_authority() {
    let directory = tempfile::tempdir().unwrap();
    let made = Authority::create(directory.path(), &clock(-3_640)).unwrap();
    let left = |days, name, then| {
        let files = files(&made, Role::Node, name, &clock(days));
        let loaded = ClusterTls::load(&files, Role::Node, REGION, &clock(0)).unwrap();
        loaded.days_left(&clock(then))
    };
    assert_eq!(left(-360, "n1", 0), 5);
    assert_eq!(left(-360, "n2", 4), 1);
    assert_eq!(left(0, "n3", 0), 10, "its authority ends first");
    assert_eq!(left(0, "n4", 10), 0);
    assert_eq!(left(0, "n5", 30), 0);
}

#[test]
fn a_key_of_another_authority_issues_nothing() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let made = authority(one.path());
    authority(other.path());
    std::fs::copy(other.path().join("ca-key.pem"), one.path().join("ca-key.pem")).unwrap();
    let error = made.issue(Role::Server, "s1", REGION, &SystemClock).unwrap_err();
    assert!(error.to_string().contains("ca-key.pem"), "{error}");
    assert!(!one.path().join("s1-key.pem").exists());
}

#[test]
fn a_certificate_that_was_issued_issues_no_others() {
    let directory = tempfile::tempdir().unwrap();
    let made = authority(directory.path());
    let issuer = made.issue(Role::Node, "issuer", REGION, &SystemClock).unwrap();
    let below = tempfile::tempdir().unwrap();
    std::fs::copy(&issuer.certificate, below.path().join("ca.pem")).unwrap();
    std::fs::copy(&issuer.key, below.path().join("ca-key.pem")).unwrap();
    let refused = Authority::open(below.path()).issue(Role::Server, "s1", REGION, &SystemClock);
    assert!(refused.is_err());
}

#[test]
fn nothing_of_a_key_is_in_debug_output() {
    let directory = tempfile::tempdir().unwrap();
    let made = authority(directory.path());
    let loaded = load(&files(&made, Role::Node, "n1", &SystemClock), Role::Node).unwrap();
    assert_eq!(format!("{loaded:?}"), "ClusterTls { region: \"global\", .. }");
}
