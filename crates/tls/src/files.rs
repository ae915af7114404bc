//! PEM files: a chain of certificates, its key, trusted authorities, and revocation lists. Paths go in and what they
//! hold comes out, or the file that is at fault. A file is read up to a bound.

use crate::Error;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// More than any bundle of authorities takes.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The certificate of a port, and the authorities that it trusts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFiles {
    /// The certificate, with those between it and its authority behind it.
    pub cert: PathBuf,
    pub key: PathBuf,
    /// Clients must present a certificate of one of these authorities; without the file, none is requested.
    pub ca: Option<PathBuf>,
    /// Revoked certificates.
    pub crl: Option<PathBuf>,
}

impl ServerFiles {
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        [Some(&self.cert), Some(&self.key), self.ca.as_ref(), self.crl.as_ref()]
            .into_iter()
            .flatten()
            .cloned()
            .collect()
    }
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut bytes));
    read.map_err(|reason| Error::Read { file: path.to_owned(), reason })?;
    Ok(bytes)
}

pub(crate) fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&read(path)?)
        .collect::<Result<_, _>>()
        .map_err(|reason| unusable(path, reason))?;
    if chain.is_empty() {
        Err(Error::Nothing { file: path.to_owned(), what: "certificate" })
    } else {
        Ok(chain)
    }
}

pub(crate) fn key(path: &Path) -> Result<PrivateKeyDer<'static>, Error> {
    PrivateKeyDer::from_pem_slice(&read(path)?)
        .map_err(|_| Error::Nothing { file: path.to_owned(), what: "private key" })
}

/// Every certificate in the file must be usable as a trust anchor.
pub(crate) fn roots(path: &Path) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in chain(path)? {
        roots.add(certificate).map_err(|reason| unusable(path, reason))?;
    }
    Ok(roots)
}

/// As PEM, or as the one list that the file is.
pub(crate) fn revoked(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, Error> {
    let bytes = read(path)?;
    let lists: Vec<_> = CertificateRevocationListDer::pem_slice_iter(&bytes)
        .collect::<Result<_, _>>()
        .map_err(|reason| unusable(path, reason))?;
    Ok(if lists.is_empty() { vec![CertificateRevocationListDer::from(bytes)] } else { lists })
}

pub(crate) fn unusable(path: &Path, reason: impl std::fmt::Display) -> Error {
    Error::Unusable { file: path.to_owned(), reason: reason.to_string() }
}
