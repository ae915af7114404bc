use super::*;
use prost_reflect::DescriptorPool;
use proto::etcdserverpb::HashResponse;
use tonic::codegen::tokio_stream;

#[test]
fn refusals_have_the_same_status_as_the_table_of_the_house() {
    for code in base::Code::ALL {
        let status = crate::grpc::refusal::render(*code);
        assert_eq!(http_status(status.code()).as_u16(), code.grpc().http_status(), "{code:?}");
    }
}

#[test]
fn headers_for_the_call_lose_their_prefix_and_others_stay_behind() {
    let mut headers = HeaderMap::new();
    headers.insert("Grpc-Metadata-Hasleader", "true".parse().unwrap());
    headers.insert("Content-Length", "2".parse().unwrap());
    let metadata = metadata(&headers);
    assert_eq!(metadata.len(), 1);
    assert_eq!(metadata.get("hasleader").unwrap(), "true");
}

#[tokio::test]
async fn a_stream_is_a_line_for_each_message_and_its_error_the_last() {
    let pool = DescriptorPool::decode(proto::DESCRIPTORS).unwrap();
    let transcoder = Arc::new(Transcoder::new(pool, 1024));
    let answers = [
        Ok(HashResponse { header: None, hash: 1 }),
        Ok(HashResponse { header: None, hash: 0 }),
        Err(Status::out_of_range("gone")),
    ];
    let response = stream(transcoder, Box::pin(tokio_stream::iter(answers)));
    assert_eq!(response.headers()[CONTENT_TYPE], JSON);
    let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    assert_eq!(
        body,
        "{\"result\":{\"hash\":1}}\n{\"result\":{}}\n{\"error\":{\"code\":11,\"message\":\"gone\"}}\n"
    );
}
