use super::*;
use crate::connections::ConnectionLimits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tonic::codegen::tokio_stream::StreamExt;

async fn open(connections_max: usize) -> (Acceptor, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (
        Acceptor::open(
            AsyncListener::Tcp(listener),
            Connections::new(ConnectionLimits::of(connections_max)),
            Traffic::default(),
        ),
        address,
    )
}

#[tokio::test]
async fn beyond_the_bound_a_connection_is_limited_and_a_free_place_is_given_again() {
    let (mut acceptor, address) = open(1).await;
    let _first = TcpStream::connect(address).await.unwrap();
    let conn = acceptor.next().await.unwrap().unwrap();
    assert!(conn.slot_guard().begin_request());

    let late = TcpStream::connect(address).await.unwrap();
    assert!(acceptor.next().await.unwrap().unwrap().slot_guard().is_limited());
    drop(late);

    drop(conn);
    let _third = TcpStream::connect(address).await.unwrap();
    assert!(!acceptor.next().await.unwrap().unwrap().slot_guard().is_limited());
}

#[tokio::test]
async fn who_says_nothing_in_time_is_turned_out() {
    let (mut acceptor, address) = open(1).await;
    let mut client = TcpStream::connect(address).await.unwrap();
    let mut conn = acceptor.next().await.unwrap().unwrap();
    client.write_all(&[0; GREETING_BYTES - 1]).await.unwrap();
    conn.read_exact(&mut [0; GREETING_BYTES - 1]).await.unwrap();

    let greeting_timer = conn.greeting_timer.as_mut().unwrap();
    greeting_timer.deadline.as_mut().reset(Instant::now());
    assert_eq!(conn.read(&mut [0; 1]).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
}

#[tokio::test]
async fn who_has_greeted_may_be_silent() {
    let (mut acceptor, address) = open(1).await;
    let mut client = TcpStream::connect(address).await.unwrap();
    let mut conn = acceptor.next().await.unwrap().unwrap();
    client.write_all(&[0; GREETING_BYTES]).await.unwrap();
    conn.read_exact(&mut [0; GREETING_BYTES]).await.unwrap();
    assert!(conn.greeting_timer.is_none());
}

#[tokio::test]
async fn a_greeting_is_recognised_however_slowly_it_comes_and_is_read_again() {
    let greetings = [b"ALTHINGP"];
    for (words, expected) in
        [(&b"ALTHINGP and more"[..], true), (b"ALT, or not", false), (b"GET / HTTP/1.1", false)]
    {
        let (mut acceptor, address) = open(1).await;
        let mut client = TcpStream::connect(address).await.unwrap();
        let mut conn = acceptor.next().await.unwrap().unwrap();
        let (first, rest) = words.split_at(3);
        client.write_all(first).await.unwrap();
        let (found, ()) = tokio::join!(conn.begins_with(&greetings), async {
            tokio::task::yield_now().await;
            client.write_all(rest).await.unwrap();
        });
        assert_eq!(found.unwrap(), expected);
        let mut read = vec![0; words.len()];
        conn.read_exact(&mut read).await.unwrap();
        assert_eq!(read, words);
    }
}

#[tokio::test]
async fn a_client_that_leaves_before_its_preface_is_gone() {
    let (mut acceptor, address) = open(1).await;
    drop(TcpStream::connect(address).await.unwrap());
    let conn = acceptor.next().await.unwrap().unwrap();
    assert!(conn.begins_with(&[b"ALTHINGP"]).await.is_err());
}

#[tokio::test]
async fn what_is_put_back_is_read_first_and_nothing_is_lost() {
    let (mut acceptor, address) = open(1).await;
    let _client = TcpStream::connect(address).await.unwrap();
    let mut conn = acceptor.next().await.unwrap().unwrap();
    conn.unread(Bytes::from_static(b"abcdef"));
    let mut read = [0; 3];
    conn.read_exact(&mut read).await.unwrap();
    conn.unread(Bytes::copy_from_slice(&read));
    let mut read = [0; 6];
    conn.read_exact(&mut read).await.unwrap();
    assert_eq!(&read, b"abcdef");
}
