//! Many requests at once over one connection, again and again with other sizes.

use crate::echo::Echo;
use base::Rng;
use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use http::{Request, StatusCode};
use http2::Limits;

const LIMITS: Limits = Limits {
    streams_max: 50,
    stream_window_bytes: 20_000,
    extension_step_bytes: 20_000,
    extension_bytes_max: 40_000,
    connection_window_bytes: 70_000,
    header_list_bytes_max: 16_384,
    output_bytes_soft: 50_000,
};

struct Sizes {
    seed: u64,
    window: u32,
    connection_window: u32,
    pipe: usize,
    requests: usize,
    body_max: u64,
}

/// Sends one request and takes its answer in.
async fn ask(mut client: SendRequest<Bytes>, path: &str, body: Bytes) -> Result<(), h2::Error> {
    client = client.ready().await?;
    let request = Request::post(format!("http://test{path}")).header("te", "trailers").body(()).unwrap();
    let (answer, mut stream) = client.send_request(request, body.is_empty())?;
    if !body.is_empty() {
        stream.send_data(body.clone(), true)?;
    }
    let answer = answer.await?;
    let plain = path == "/plain";
    assert_eq!(answer.status(), if plain { StatusCode::NOT_FOUND } else { StatusCode::OK });
    let mut got = Vec::new();
    let mut incoming = answer.into_body();
    while let Some(data) = incoming.data().await {
        let data = data?;
        got.extend_from_slice(&data);
        incoming.flow_control().release_capacity(data.len())?;
    }
    assert!(got == body, "{} bytes came back of {}", got.len(), body.len());
    let trailers = incoming.trailers().await?;
    assert_eq!(trailers.is_none(), plain);
    if let Some(trailers) = trailers {
        assert_eq!((trailers["grpc-status"].as_bytes(), trailers["c"].as_bytes()), (&b"0"[..], &b"d"[..]));
    }
    Ok(())
}

async fn converse(sizes: Sizes) {
    let (ours, theirs) = tokio::io::duplex(sizes.pipe);
    let server = tokio::spawn(Echo::new(ours, LIMITS, sizes.seed).serve());
    let (client, connection) = Builder::new()
        .initial_window_size(sizes.window)
        .initial_connection_window_size(sizes.connection_window)
        .handshake::<_, Bytes>(theirs)
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    let mut rng = Rng::new(sizes.seed);
    let mut asked = tokio::task::JoinSet::new();
    for _ in 0..sizes.requests {
        let len = (rng.next_u64() % sizes.body_max) as usize;
        let body = Bytes::from(vec![rng.next_u64() as u8; len]);
        let path = ["/whole", "/parts", "/plain"][(rng.next_u64() % 3) as usize];
        asked.spawn({
            let client = client.clone();
            async move { ask(client, path, body).await }
        });
        if rng.next_u64().is_multiple_of(8) {
            let client = client.clone();
            asked.spawn(async move {
                assert!(ask(client, "/reset", Bytes::new()).await.is_err_and(|error| error.is_reset()));
                Ok(())
            });
        }
    }
    drop(client);
    while let Some(done) = asked.join_next().await {
        done.unwrap().unwrap();
    }
    connection.await.unwrap().unwrap();
    assert_eq!(server.await.unwrap(), 0);
}

#[tokio::test]
async fn small_requests_in_great_number() {
    for seed in 0..10 {
        converse(Sizes {
            seed,
            window: 65_535,
            connection_window: 65_535,
            pipe: 1 << 16,
            requests: 500,
            body_max: 500,
        })
        .await;
    }
}

#[tokio::test]
async fn bodies_far_larger_than_the_windows() {
    for seed in 0..5 {
        converse(Sizes {
            seed,
            window: 3_000,
            connection_window: 70_000,
            pipe: 10_000,
            requests: 40,
            body_max: 300_000,
        })
        .await;
    }
}

#[tokio::test]
async fn a_pipe_of_a_few_bytes() {
    for seed in 0..5 {
        converse(Sizes {
            seed,
            window: 20_000,
            connection_window: 65_535,
            pipe: 7,
            requests: 20,
            body_max: 5_000,
        })
        .await;
    }
}

#[tokio::test]
async fn windows_without_bound() {
    for seed in 0..3 {
        converse(Sizes {
            seed,
            window: 1 << 30,
            connection_window: 1 << 30,
            pipe: 1 << 20,
            requests: 100,
            body_max: 1_000_000,
        })
        .await;
    }
}

#[tokio::test]
async fn cancelled_requests_do_not_harm_others() {
    let (ours, theirs) = tokio::io::duplex(10_000);
    let server = tokio::spawn(Echo::new(ours, LIMITS, 1).serve());
    let (client, connection) = Builder::new().handshake::<_, Bytes>(theirs).await.unwrap();
    let connection = tokio::spawn(connection);
    for nth in 0..300u32 {
        let mut ready = client.clone().ready().await.unwrap();
        let request = Request::post("http://test/whole").body(()).unwrap();
        let (answer, mut stream) = ready.send_request(request, false).unwrap();
        stream.send_data(vec![0; 10_000].into(), nth.is_multiple_of(2)).unwrap();
        if nth.is_multiple_of(3) {
            tokio::task::yield_now().await;
        }
        drop((answer, stream));
        ask(client.clone(), "/parts", vec![7; 30_000].into()).await.unwrap();
    }
    drop(client);
    connection.await.unwrap().unwrap();
    assert_eq!(server.await.unwrap(), 0);
}
