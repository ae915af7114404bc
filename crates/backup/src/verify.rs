//! Verifies backups: every object that a manifest names is fetched and held against its name. All that is wrong is reported,
//! and not only the first.

use crate::error::Error;
use crate::manifest::BackupId;
use crate::reader::Reader;
use crate::rows::decode_rows;

/// Something that is wrong.
#[derive(Debug)]
pub struct Flaw {
    pub backup: BackupId,
    pub error: Error,
}

#[derive(Debug, Default)]
pub struct Verified {
    pub objects: u64,
    pub bytes: u64,
    pub rows: u64,
    /// Of these rows, elements of collections.
    pub elements: u64,
    pub flaws: Vec<Flaw>,
}

/// `progress` hears how many bytes of contents were read. An error of the target itself ends it.
pub async fn verify(reader: &Reader<'_>, progress: &mut dyn FnMut(u64)) -> Result<Verified, Error> {
    let mut verified = Verified::default();
    let manifest = reader.manifest();
    let flaw = |error: Error| match error {
        Error::Missing(_) | Error::Damaged { .. } => Ok(Flaw { backup: manifest.id.clone(), error }),
        error => Err(error),
    };
    for object in manifest.coord.iter().flat_map(|coord| &coord.objects) {
        match reader.content(object).await {
            Ok(content) => verified.bytes += content.len() as u64,
            Err(error) => verified.flaws.push(flaw(error)?),
        }
        verified.objects += 1;
        progress(verified.bytes);
    }
    for part in manifest.mesh.iter().flat_map(|mesh| &mesh.partitions) {
        let (mut rows, mut elements, mut is_whole) = (0, 0, true);
        for object in &part.objects {
            match reader.content(object).await {
                Ok(content) => {
                    verified.bytes += content.len() as u64;
                    let found = decode_rows(content)
                        .ok_or(Error::Damaged { name: object.name.clone(), what: "it holds no rows" });
                    match found {
                        Ok(found) => {
                            rows += found.len() as u64;
                            elements += found.iter().filter(|row| row.is_element()).count() as u64;
                        }
                        Err(error) => verified.flaws.push(flaw(error)?),
                    }
                }
                Err(error) => {
                    is_whole = false;
                    verified.flaws.push(flaw(error)?);
                }
            }
            verified.objects += 1;
            progress(verified.bytes);
        }
        if is_whole && (rows, elements) != (part.rows, part.elements) {
            let name = part.objects.first().map_or_else(String::new, |object| object.name.clone());
            verified
                .flaws
                .push(flaw(Error::Damaged { name, what: "its partition has another number of rows" })?);
        }
        verified.rows += rows;
        verified.elements += elements;
    }
    Ok(verified)
}
