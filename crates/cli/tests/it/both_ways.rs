//! The same scene in clear and inside TLS: a member whose ports speak TLS is reached through a tunnel, which hands bytes on as
//! they come. So whatever a scene sends in clear goes through TLS unchanged, attacks below HTTP included.

use crate::process::{Member, Plan};
use crate::tls::{pem, with_server_certificate};
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::OnceLock;
use tls::ClientFiles;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy, split};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::TlsConnector;

/// How clients reach a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    InClear,
    InsideTls,
}

/// Plays the scene both ways, at the same time.
pub fn both_ways(scene: impl Fn(Way) + Sync) {
    std::thread::scope(|scope| {
        for way in [Way::InClear, Way::InsideTls] {
            let scene = &scene;
            scope.spawn(move || scene(way));
        }
    });
}

impl Way {
    pub fn start_ready(self, plan: &Plan) -> Member {
        let member = self.reach(self.plan(plan.clone()).start());
        member.wait_ready();
        member
    }

    /// With the certificates that the ports need.
    pub fn plan(self, plan: Plan) -> Plan {
        match self {
            Way::InClear => plan,
            Way::InsideTls => with_server_certificate(plan),
        }
    }

    /// The member with the addresses that plain bytes go to.
    pub fn reach(self, mut member: Member) -> Member {
        if self == Way::InsideTls {
            member.client = tunnel_to(member.client);
            member.rest = member.rest.map(tunnel_to);
        }
        member
    }
}

/// An address of this machine, from which everything goes on to `target` inside TLS, for as long as the tests run.
fn tunnel_to(target: SocketAddr) -> SocketAddr {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| {
        Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads can be started")
    });
    let files = ClientFiles { ca: Some(pem("ca.pem").into()), identity: None };
    // Without a protocol in the handshake: the first bytes tell which it is.
    let connector = TlsConnector::from(files.config(&[]).unwrap());
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(forward(client, target, connector.clone()));
        }
    });
    address
}

async fn forward(client: TcpStream, target: SocketAddr, connector: TlsConnector) -> io::Result<()> {
    client.set_nodelay(true)?;
    let server = TcpStream::connect(target).await?;
    server.set_nodelay(true)?;
    let name = ClientFiles::name_of(&target.to_string()).expect("an address is a name");
    let (from_server, to_server) = split(connector.connect(name, server).await?);
    let (from_client, to_client) = split(client);
    let request = async {
        // A client that ends its half may still listen.
        if hand_on(from_client, to_server).await.is_ok() {
            pending::<()>().await;
        }
    };
    tokio::select! {
        () = request => {}
        _ = hand_on(from_server, to_client) => {}
    }
    Ok(())
}

async fn hand_on(mut from: impl AsyncRead + Unpin, mut into: impl AsyncWrite + Unpin) -> io::Result<()> {
    copy(&mut from, &mut into).await?;
    into.shutdown().await
}
