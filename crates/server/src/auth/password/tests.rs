use super::*;
use std::sync::mpsc;

const PATIENCE: Duration = Duration::from_secs(300);
const NOW: Instant = Instant(0);

fn source(user: &str) -> LoginSource {
    LoginSource::new(Some([10, 0, 0, 1].into()), user)
}

async fn hash(hashing: &PasswordHasher, password: &str) -> Bytes {
    hashing.hash(source("ann"), password.to_owned(), PATIENCE).await.unwrap()
}

async fn matches_hash(hashing: &PasswordHasher, password: &str, hash: impl Into<Bytes>) -> bool {
    let known = StoredHash::Hash(hash.into());
    hashing.matches_hash(NOW, source("ann"), password.to_owned(), known, PATIENCE).await.unwrap()
}

/// Keeps all threads of hashing busy until it is dropped.
struct Busy {
    _release: Vec<mpsc::Sender<()>>,
}

impl Busy {
    async fn make(hashing: &Arc<PasswordHasher>) -> Busy {
        let mut held = Vec::new();
        for _ in 0..THREADS_MAX {
            let ((release, released), (began, begun)) = (mpsc::channel::<()>(), oneshot::channel());
            let hashing = hashing.clone();
            tokio::spawn(async move {
                let wait = move || {
                    began.send(()).unwrap();
                    let _ = released.recv();
                };
                hashing.run(source("busy"), PATIENCE, wait).await
            });
            begun.await.unwrap();
            held.push(release);
        }
        Busy { _release: held }
    }
}

fn waiting(hashing: &PasswordHasher) -> usize {
    lock(&hashing.work).queue.len()
}

#[tokio::test]
async fn a_password_fits_its_hash_and_no_other() {
    let hashing = PasswordHasher::new(4);
    let sesame = hash(&hashing, "open sesame").await;
    assert!(sesame.starts_with(b"$2a$04$"), "{sesame:?}");
    for _ in 0..2 {
        assert!(matches_hash(&hashing, "open sesame", sesame.clone()).await);
        assert!(!matches_hash(&hashing, "open sesam", sesame.clone()).await);
    }
    assert_ne!(hash(&hashing, "open sesame").await, sesame, "the salt is another");
    for damaged in ["", "$2a$04$", "no hash at all", "sha256", "sha256$2a$04$"] {
        assert!(!matches_hash(&hashing, "open sesame", damaged).await);
    }
}

#[tokio::test]
async fn no_part_of_a_long_password_is_left_out() {
    let hashing = PasswordHasher::new(4);
    for len in [71, 72, 73, 200, 5_000] {
        let password = "p".repeat(len);
        let stored = hash(&hashing, &password).await;
        assert_eq!(stored.starts_with(HASHED_BEFORE.as_bytes()), len >= BCRYPT_BYTES_MAX);
        assert!(matches_hash(&hashing, &password, stored.clone()).await, "{len}");
        for other in
            [&password[1..], &format!("{password}p"), &format!("{password}\0"), &digest_of(&password)]
        {
            assert!(!matches_hash(&hashing, other, stored.clone()).await, "{len}");
        }
    }
}

#[tokio::test]
async fn hashes_of_older_releases_fit_as_they_did() {
    let hashing = PasswordHasher::new(4);
    let long = "p".repeat(100);
    // They cut it.
    let old = bcrypt::hash_with_salt(&long, 4, [7; 16]).unwrap().format_for_version(bcrypt::Version::TwoA);
    assert!(matches_hash(&hashing, &long, old).await);
    let empty = bcrypt::hash_with_salt("", 4, [7; 16]).unwrap().format_for_version(bcrypt::Version::TwoA);
    assert!(matches_hash(&hashing, "", empty).await);
}

#[tokio::test]
async fn a_login_of_a_user_that_does_not_exist_waits_and_works_as_any_other() {
    let hashing = Arc::new(PasswordHasher::new(4));
    let stored = hash(&hashing, "secret").await;
    let busy = Busy::make(&hashing).await;
    let ask = |known: StoredHash| {
        let hashing = hashing.clone();
        tokio::spawn(async move {
            hashing.matches_hash(NOW, source("ann"), "wrong".into(), known, PATIENCE).await
        })
    };
    let (one, other) = (ask(StoredHash::Hash(stored)), ask(StoredHash::Missing));
    while waiting(&hashing) < 2 {
        tokio::task::yield_now().await;
    }
    assert!(!one.is_finished() && !other.is_finished());
    drop(busy);
    assert_eq!((one.await.unwrap(), other.await.unwrap()), (Ok(false), Ok(false)));
}

#[tokio::test]
async fn a_flood_of_logins_does_not_keep_others_waiting() {
    let hashing = Arc::new(PasswordHasher::new(4));
    let busy = Busy::make(&hashing).await;
    let (served, order) = mpsc::channel();
    let login = |user: &'static str| {
        let (hashing, served) = (hashing.clone(), served.clone());
        tokio::spawn(async move {
            let work = move || served.send(user).unwrap();
            hashing.run(source(user), PATIENCE, work).await
        })
    };
    let flood: Vec<_> = (0..300).map(|_| login("root")).collect();
    while waiting(&hashing) < 16 {
        tokio::task::yield_now().await;
    }
    let ann = login("ann");
    while waiting(&hashing) < 17 {
        tokio::task::yield_now().await;
    }
    drop(busy);
    assert_eq!(ann.await.unwrap(), Ok(()));
    let before = order.iter().position(|user| user == "ann").unwrap();
    // Two threads take turns, and each may have taken up one of the flood.
    assert!(before <= 4, "{before} were served before");
    for login in flood {
        let outcome = login.await.unwrap();
        assert!(matches!(outcome, Ok(()) | Err(Code::TooManyRequests)), "{outcome:?}");
    }
}

#[tokio::test]
async fn a_login_that_was_given_up_is_not_hashed_and_takes_no_place() {
    let hashing = Arc::new(PasswordHasher::new(4));
    let busy = Busy::make(&hashing).await;
    for _ in 0..100 {
        let outcome = hashing.run(source("ann"), Duration::ZERO, || panic!("no caller waits for it")).await;
        assert_eq!(outcome, Err::<(), _>(Code::TooManyRequests));
    }
    assert!(waiting(&hashing) <= 1);
    drop(busy);
    assert_eq!(hashing.run(source("ann"), PATIENCE, || 7).await, Ok(7));
}

#[tokio::test]
async fn a_login_that_fitted_before_needs_no_turn() {
    let hashing = Arc::new(PasswordHasher::new(4));
    let stored = hash(&hashing, "secret").await;
    assert!(matches_hash(&hashing, "secret", stored.clone()).await);
    let _busy = Busy::make(&hashing).await;
    assert!(matches_hash(&hashing, "secret", stored).await);
}

#[test]
fn secrets_are_letters_and_differ() {
    let (one, other) = (secret().unwrap(), secret().unwrap());
    assert!(one.len() == SECRET_LETTERS && one.bytes().all(|byte| byte.is_ascii_alphabetic()), "{one}");
    assert_ne!(one, other);
}
