//! [`Authority`]: makes the certificates of a cluster.
//!
//! It replaces no file. A key is readable for this user only. What was issued is checked against the authority's file
//! before it is written, so a key that is not that of the file issues nothing.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};

use super::cluster_tls::read_certificates;
use super::role::Role;
use super::tls_error::TlsError;
use super::validity::{since_epoch, verify_at};
use nomad_csi_model::{one_line, private};
use nomad_csi_ports::Clock;

/// How long the certificate of an authority is valid.
const AUTHORITY_DAYS: u64 = 3_650;
/// How long another certificate is valid.
const ISSUED_DAYS: u64 = 365;
/// How long before now a certificate is valid already: clocks differ.
const EARLIER: Duration = Duration::from_secs(3_600);
/// The common name of every authority. Their keys distinguish them.
const COMMON_NAME: &str = "nomad-csi authority";
/// The file of the authority's certificate.
const CERTIFICATE: &str = "ca.pem";
/// The file of the authority's key.
const KEY: &str = "ca-key.pem";
/// The longest name of a certificate.
const MAX_NAME: usize = 63;
/// What the names of roles end with.
const ROLE_SUFFIX: &str = ".nomad-csi";
/// The longest file of a key.
const MAX_KEY_BYTES: u64 = 64 << 10;

/// The authority whose certificate and key are in one directory. Its methods block.
#[derive(Clone, Debug)]
pub struct Authority {
    directory: PathBuf,
}

/// The files of a certificate that was issued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuedFiles {
    /// The certificate.
    pub certificate: PathBuf,
    /// Its key, mode 0600.
    pub key: PathBuf,
}

impl Authority {
    /// Creates an authority with a new key: valid for ten years, for certificates that issue no others.
    ///
    /// # Errors
    /// If the directory has one, or a file cannot be written.
    pub fn create(directory: &Path, clock: &dyn Clock) -> Result<Self, TlsError> {
        let made = private::create_directory(directory);
        let directory = made.map_err(|error| {
            TlsError::new(
                "create",
                directory,
                error.to_string(),
                "choose a directory that only you can change",
            )
        })?;
        let [certificate, key] = [CERTIFICATE, KEY].map(|name| directory.join(name));
        let signing = new_key(&key)?;
        let issuer = authority_params(clock).self_signed(&signing);
        let made = issuer.map_err(|error| cannot_make(&certificate, &error))?;
        write_pair(&certificate, &made.pem(), &key, &signing.serialize_pem())?;
        Ok(Self { directory })
    }

    /// Returns the authority of a directory. Its files are read when it issues a certificate.
    pub fn open(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    /// Returns the file with its certificate.
    pub fn certificate_file(&self) -> PathBuf {
        self.directory.join(CERTIFICATE)
    }

    /// Returns the file with its key.
    pub fn key_file(&self) -> PathBuf {
        self.directory.join(KEY)
    }

    /// Issues a certificate for one role in one region, valid for a year, into `NAME.pem` and `NAME-key.pem` beside the
    /// authority's files.
    ///
    /// # Errors
    /// If the name or the region is not usable, a file of this name exists, or the authority's files are missing, damaged or
    /// of two authorities.
    pub fn issue(
        &self,
        role: Role,
        name: &str,
        region: &str,
        clock: &dyn Clock,
    ) -> Result<IssuedFiles, TlsError> {
        self.issue_with_addresses(role, name, region, &[], clock)
    }

    /// Issues the same with host names and IP addresses under which clients of the HTTP API reach the process.
    ///
    /// # Errors
    /// As for [`Self::issue`]; also if an address is neither, or is the name of a role.
    pub fn issue_with_addresses(
        &self,
        role: Role,
        name: &str,
        region: &str,
        addresses: &[String],
        clock: &dyn Clock,
    ) -> Result<IssuedFiles, TlsError> {
        let [certificate, key] =
            ["", "-key"].map(|suffix| self.directory.join(format!("{name}{suffix}.pem")));
        check_name(name, &certificate)?;
        for address in addresses {
            check_address(address, &certificate)?;
        }
        if role.server_name(region).is_none() {
            let reason = format!("region `{region}` cannot be a part of a DNS name");
            return Err(TlsError::new(
                "create",
                &certificate,
                reason,
                "use letters, digits and `-`",
            ));
        }
        let (issuer_file, issuer_key) = (self.certificate_file(), self.key_file());
        let authorities = read_certificates(&issuer_file)?;
        let signing = KeyPair::from_pem(&read_key(&issuer_key)?).map_err(|_| {
            let help = "restore it from a backup, or create another authority";
            TlsError::new("read", &issuer_key, "it is not a key in PEM", help)
        })?;
        let own = new_key(&key)?;
        let names = [role.dns_name(region)].into_iter().chain(addresses.iter().cloned());
        let params = issued_params(names.collect(), name, clock)
            .map_err(|error| cannot_make(&certificate, &error))?;
        let issuer = Issuer::new(authority_params(clock), signing);
        let made = params.signed_by(&own, &issuer);
        let made = made.map_err(|error| cannot_make(&certificate, &error))?;
        let now = since_epoch(clock);
        verify_at(std::slice::from_ref(made.der()), &authorities, now).map_err(|error| {
            let reason = format!(
                "`{}` and `{}` do not issue a certificate that is valid: {error}",
                issuer_file.display(),
                issuer_key.display()
            );
            let help =
                "use the key that belongs to the certificate of the authority, before that ends";
            TlsError::new("create", &certificate, reason, help)
        })?;
        write_pair(&certificate, &made.pem(), &key, &own.serialize_pem())?;
        Ok(IssuedFiles { certificate, key })
    }
}

/// A name is a file name and the common name of a certificate.
fn check_name(name: &str, file: &Path) -> Result<(), TlsError> {
    let is_usable = name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.len() <= MAX_NAME
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    let is_taken = ["ca", "ca-key"].contains(&name) || name.ends_with("-key");
    if is_usable && !is_taken {
        return Ok(());
    }
    let reason = format!("`{name}` cannot be the name of a certificate");
    let help =
        "use at most 63 letters, digits, `-`, `_` and `.`, not `ca`, and no `-key` at the end";
    Err(TlsError::new("create", file, reason, help))
}

/// An address of a server is an IP address or a host name, and never what says a role.
fn check_address(address: &str, file: &Path) -> Result<(), TlsError> {
    let is_ip = address.parse::<IpAddr>().is_ok();
    let lower = address.to_ascii_lowercase();
    let says_role = lower.trim_end_matches('.').ends_with(ROLE_SUFFIX);
    let is_host = lower.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.'))
        && lower.starts_with(|first: char| first.is_ascii_alphanumeric());
    if is_ip || (is_host && !says_role) {
        return Ok(());
    }
    let reason = format!("`{}` cannot be an address of a server", one_line(address));
    let help = "use a host name or an IP address without a port";
    Err(TlsError::new("create", file, reason, help))
}

fn authority_params(clock: &dyn Clock) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = named(COMMON_NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    limit(params, clock, AUTHORITY_DAYS)
}

fn issued_params(
    names: Vec<String>,
    name: &str,
    clock: &dyn Clock,
) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = named(name);
    params.is_ca = IsCa::ExplicitNoCa;
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    Ok(limit(params, clock, ISSUED_DAYS))
}

fn named(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

fn limit(mut params: CertificateParams, clock: &dyn Clock, days: u64) -> CertificateParams {
    let (epoch, now) = (rcgen::date_time_ymd(1970, 1, 1), since_epoch(clock));
    params.not_before = epoch + now.saturating_sub(EARLIER);
    params.not_after = epoch + now + Duration::from_secs(days * 86_400);
    params
}

fn new_key(file: &Path) -> Result<KeyPair, TlsError> {
    KeyPair::generate().map_err(|error| cannot_make(file, &error))
}

fn cannot_make(file: &Path, error: &rcgen::Error) -> TlsError {
    TlsError::new("create", file, error.to_string(), "report this as a bug")
}

fn read_key(file: &Path) -> Result<String, TlsError> {
    let mut text = String::new();
    let read = private::open_given(file)
        .and_then(|opened| opened.take(MAX_KEY_BYTES).read_to_string(&mut text));
    read.map_err(|error| {
        let help = "run `nomad-csi agent tls init` first, or name the directory of the authority";
        TlsError::new("read", file, error.to_string(), help)
    })?;
    Ok(text)
}

/// Writes both files, or leaves neither. The key comes first: a certificate without a key looks complete.
fn write_pair(
    certificate: &Path,
    certificate_pem: &str,
    key: &Path,
    key_pem: &str,
) -> Result<(), TlsError> {
    if certificate.symlink_metadata().is_ok() {
        return Err(taken(certificate));
    }
    write_new(key, key_pem)?;
    write_new(certificate, certificate_pem).inspect_err(|_| {
        // It is of no use without its certificate, and would be in the way of the next attempt.
        std::fs::remove_file(key).ok();
    })
}

fn write_new(path: &Path, pem: &str) -> Result<(), TlsError> {
    let cannot_write = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => taken(path),
        _ => TlsError::new(
            "create",
            path,
            error.to_string(),
            "make room, or choose another directory",
        ),
    };
    let mut file: File = private::create_new(path).map_err(cannot_write)?;
    let written = file.write_all(pem.as_bytes()).and_then(|()| file.sync_all());
    written.map_err(|error| {
        std::fs::remove_file(path).ok();
        cannot_write(error)
    })
}

fn taken(path: &Path) -> TlsError {
    let help = "choose another name or directory, or remove the file if nothing uses it";
    TlsError::new("create", path, "it exists already", help)
}
