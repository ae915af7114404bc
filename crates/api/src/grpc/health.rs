//! gRPC's own health checking: whether this server takes calls.
//! The server as a whole is the only service it knows, as in etcd: serving from the start until it stops.
//! A watcher receives that, and its stream ends, so that it does not delay the stop.

use proto::health::health_check_response::ServingStatus;
use proto::health::health_server::Health;
use proto::health::{HealthCheckRequest, HealthCheckResponse};
use tokio::sync::{mpsc, watch};
use tonic::codegen::BoxStream;
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

pub struct HealthService {
    stopping: watch::Receiver<bool>,
}

impl HealthService {
    pub fn new(stopping: watch::Receiver<bool>) -> HealthService {
        HealthService { stopping }
    }

    /// The status of the server as a whole; there is no other service.
    fn status_of(&self, service: &str) -> Option<ServingStatus> {
        match (service, *self.stopping.borrow()) {
            ("", false) => Some(ServingStatus::Serving),
            ("", true) => Some(ServingStatus::NotServing),
            _ => None,
        }
    }
}

#[tonic::async_trait]
impl Health for HealthService {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        match self.status_of(&request.get_ref().service) {
            Some(status) => Ok(Response::new(render(status))),
            None => Err(Status::not_found("unknown service")),
        }
    }

    type WatchStream = BoxStream<HealthCheckResponse>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let first = self.status_of(&request.get_ref().service);
        let (tell, told) = mpsc::channel(2);
        tokio::spawn(report_until_stopped(first, self.stopping.clone(), tell));
        Ok(Response::new(Box::pin(ReceiverStream::new(told))))
    }
}

/// The state at once, and a change when the server stops. Ends early when the client goes away.
async fn report_until_stopped(
    first: Option<ServingStatus>,
    mut stopping: watch::Receiver<bool>,
    tell: mpsc::Sender<Result<HealthCheckResponse, Status>>,
) {
    // The client may have gone away.
    let _ = tell.send(Ok(render(first.unwrap_or(ServingStatus::ServiceUnknown)))).await;
    tokio::select! {
        // A dropped sender means the same as a stop.
        _ = stopping.wait_for(|stopping| *stopping) => {}
        () = tell.closed() => return,
    }
    if first == Some(ServingStatus::Serving) {
        let _ = tell.send(Ok(render(ServingStatus::NotServing))).await;
    }
}

fn render(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status as i32 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::codegen::tokio_stream::StreamExt;

    fn ask(service: &str) -> Request<HealthCheckRequest> {
        Request::new(HealthCheckRequest { service: service.to_owned() })
    }

    #[tokio::test]
    async fn the_server_as_a_whole_serves_until_it_stops() {
        let (stop, stopping) = watch::channel(false);
        let health = HealthService::new(stopping);
        assert_eq!(health.check(ask("")).await.unwrap().get_ref().status(), ServingStatus::Serving);
        let unknown = health.check(ask("etcdserverpb.KV")).await.unwrap_err();
        assert_eq!((unknown.code(), unknown.message()), (tonic::Code::NotFound, "unknown service"));
        stop.send_replace(true);
        assert_eq!(health.check(ask("")).await.unwrap().get_ref().status(), ServingStatus::NotServing);
    }

    #[tokio::test]
    async fn a_watch_tells_the_state_and_ends_when_the_server_stops() {
        let (stop, stopping) = watch::channel(false);
        let health = HealthService::new(stopping);
        let mut known = health.watch(ask("")).await.unwrap().into_inner();
        let mut unknown = health.watch(ask("unknown")).await.unwrap().into_inner();
        assert_eq!(known.next().await.unwrap().unwrap().status(), ServingStatus::Serving);
        assert_eq!(unknown.next().await.unwrap().unwrap().status(), ServingStatus::ServiceUnknown);
        stop.send_replace(true);
        assert_eq!(known.next().await.unwrap().unwrap().status(), ServingStatus::NotServing);
        assert!(known.next().await.is_none() && unknown.next().await.is_none());
    }
}
