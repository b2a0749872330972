"""Does with boto3 what its guide shows; stops with an error at the first thing that is not as it should be."""

import io
import os
import socket
import urllib.request

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.client import Config
from botocore.exceptions import ClientError

settings = dict(
    endpoint_url=os.environ["URL"],
    aws_access_key_id=os.environ["KEY"],
    aws_secret_access_key=os.environ["SECRET"],
    region_name="us-east-1",
)
# Hosts below localhost are this machine, which not every resolver knows.
resolve = socket.getaddrinfo
socket.getaddrinfo = lambda host, *more, **named: resolve(
    "localhost" if host.endswith(".localhost") else host, *more, **named
)
style = {"addressing_style": os.environ["STYLE"]}
s3 = boto3.client("s3", config=Config(s3=style), **settings)
signing = boto3.client("s3", config=Config(signature_version="s3v4", s3=style), **settings)
bucket = os.environ["BUCKET"]


def refused(code, call, **arguments):
    try:
        call(**arguments)
    except ClientError as error:
        assert error.response["Error"]["Code"] == code, error
    else:
        raise AssertionError(f"{code} was expected")


s3.create_bucket(Bucket=bucket)
assert bucket in [b["Name"] for b in s3.list_buckets()["Buckets"]]
s3.head_bucket(Bucket=bucket)

s3.put_object(Bucket=bucket, Key="a b+ü.txt", Body=b"hello", Metadata={"one": "1"}, ContentType="text/plain")
found = s3.get_object(Bucket=bucket, Key="a b+ü.txt")
assert found["Body"].read() == b"hello" and found["Metadata"] == {"one": "1"}
assert s3.get_object(Bucket=bucket, Key="a b+ü.txt", Range="bytes=1-2")["Body"].read() == b"el"
# boto3 signs and sends it as UTF-8, and reads the answer as latin-1.
add = lambda params, **_: params["headers"].update({"x-amz-meta-one": "voil\xe0"})
s3.meta.events.register("before-call.s3.PutObject", add)
s3.put_object(Bucket=bucket, Key="a b+ü.txt", Body=b"hello")
s3.meta.events.unregister("before-call.s3.PutObject", add)
found = s3.get_object(Bucket=bucket, Key="a b+ü.txt")
assert found["Metadata"]["one"].encode("latin-1") == "voil\xe0".encode(), found["Metadata"]
refused("NoSuchKey", s3.get_object, Bucket=bucket, Key="none")
refused("NoSuchBucket", s3.list_objects_v2, Bucket="no-such-bucket")

data = os.urandom(30_000_000)
parts = TransferConfig(multipart_threshold=5_242_880, multipart_chunksize=5_242_880)
s3.upload_fileobj(io.BytesIO(data), bucket, "large", Config=parts)
back = io.BytesIO()
s3.download_fileobj(bucket, "large", back, Config=parts)
assert back.getvalue() == data
s3.copy({"Bucket": bucket, "Key": "large"}, bucket, "copied", Config=parts)
assert s3.head_object(Bucket=bucket, Key="copied")["ContentLength"] == len(data)

for n in range(25):
    s3.put_object(Bucket=bucket, Key=f"many/{n:02}", Body=b"")
pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix="many/", PaginationConfig={"PageSize": 10})
assert [o["Key"] for page in pages for o in page["Contents"]] == [f"many/{n:02}" for n in range(25)]
grouped = s3.list_objects_v2(Bucket=bucket, Delimiter="/")
assert [p["Prefix"] for p in grouped["CommonPrefixes"]] == ["many/"]
assert "a b+ü.txt" in [o["Key"] for o in grouped["Contents"]]

url = signing.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "a b+ü.txt"}, ExpiresIn=60)
assert urllib.request.urlopen(url).read() == b"hello"
old = boto3.client("s3", config=Config(signature_version="s3", s3=style), **settings)
try:
    urllib.request.urlopen(old.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "large"}))
except urllib.error.HTTPError as error:
    assert b"Signature version 2 is not supported" in error.read()
else:
    raise AssertionError("a URL of signature version 2 was taken")

tags = [{"Key": key, "Value": "v"} for key in ["k", "2", "long", "1", "a"]]
s3.put_object_tagging(Bucket=bucket, Key="large", Tagging={"TagSet": tags})
assert s3.get_object_tagging(Bucket=bucket, Key="large")["TagSet"] == tags
assert s3.get_bucket_acl(Bucket=bucket)["Grants"][0]["Permission"] == "FULL_CONTROL"
s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": [{"Key": "k", "Value": "v"}]})
assert s3.get_bucket_tagging(Bucket=bucket)["TagSet"] == [{"Key": "k", "Value": "v"}]
refused("NoSuchLifecycleConfiguration", s3.get_bucket_lifecycle_configuration, Bucket=bucket)
assert s3.get_bucket_request_payment(Bucket=bucket)["Payer"] == "BucketOwner"
s3.put_object_acl(Bucket=bucket, Key="large", ACL="private")
s3.put_object(Bucket=bucket, Key="control\x01", Body=b"")
pages = s3.get_paginator("list_object_versions").paginate(Bucket=bucket, PaginationConfig={"PageSize": 10})
versions = [v for page in pages for v in page["Versions"]]
assert len(versions) == 29 and all(v["IsLatest"] and v["VersionId"] == "null" for v in versions), versions
assert "control\x01" in [v["Key"] for v in versions]
assert "control\x01" in [o["Key"] for o in s3.list_objects_v2(Bucket=bucket)["Contents"]]
s3.delete_object(Bucket=bucket, Key="control\x01", VersionId="null")
refused("BucketNotEmpty", s3.delete_bucket, Bucket=bucket)
everything = boto3.resource("s3", config=Config(s3=style), **settings).Bucket(bucket)
everything.objects.all().delete()
s3.delete_bucket(Bucket=bucket)
print("all done")
