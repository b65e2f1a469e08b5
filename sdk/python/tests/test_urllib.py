"""`urllib.request` in an inferlet: what a redirect carries along."""

from urllib.request import HTTPRedirectHandler, Request

import pytest

from inferlet.http import _urllib

SECRET = {"Authorization": "Bearer key", "Cookie": "a=b", "X-Other": "c"}


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("https://api.example/elsewhere", {"Authorization", "Cookie", "X-other"}),
        ("https://API.example:443/", {"Authorization", "Cookie", "X-other"}),
        ("https://other.example/", {"X-other"}),
        ("http://api.example/", {"X-other"}),
        ("https://api.example:8443/", {"X-other"}),
    ],
)
def test_secrets_stay_with_their_host(url, kept):
    request = Request("https://api.example/first", headers=SECRET)
    next_one = _urllib._redirected(HTTPRedirectHandler(), request, None, 302, "", {}, url)
    assert set(next_one.headers) == kept
    assert set(request.headers) == {"Authorization", "Cookie", "X-other"}
