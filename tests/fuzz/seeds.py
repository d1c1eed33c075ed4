"""seeds.py NAME FOLDER: writes the inputs where a target begins, made of what the
repository has anyway: the golden frames, the signature vectors, the examples."""
import base64
import json
import pathlib
import struct
import sys

import msgpack

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def vectors():
    return json.loads((HERE.parent / 'vectors.json').read_text())


def text(value):
    return value.encode('utf-8', 'surrogatepass') if isinstance(value, str) else b''


def golden():
    for path in sorted((HERE.parent / 'golden').glob('*.hex')):
        yield bytes.fromhex(''.join(path.read_text().split()))


def bodies():
    yield b'{"type":"invoice.paid","workspace":"acme","data":{"id":7}}'
    yield (b'{"type":"a.b","workspace":"w","id":"1","endpoints":["crm"],'
           b'"expires_in":"10m","data":[1,2.5,null,"\\u00e4\\ud83d\\ude00"]}')
    yield b'[{"id":1},{"id":2,"a":[{}]},3,"x"]'
    yield b'"\xff\xfe half of a text"'
    for vector in vectors():
        yield text(vector.get('body'))


def expressions():
    body = b'{"a":{"b/c":[1,true,"x",null]},"n":9007199254740993,"~":""}'
    for expression in (b'header:x-a', b'json:/a/b~1c/2', b'json:/n', b'json:/~0',
                       b'form:payload', b'query:a', b'const:x', b'source',
                       b'body_sha256', b'workspace'):
        yield expression + b'\0a=1&b=%20\0application/json\0v\0' + body
    yield b'json:/x\0\0application/x-www-form-urlencoded\0\0payload=%7B%22x%22%3A1%7D'


def scanned():
    texts = (b'{"a":{"b/c":[1,true,"x",null]},"n":9007199254740993,"~":""}',
             b'{"a":1,"a":{"b":2},"a":{"b":3,"b":[4,5]}}',
             b' [ -0 , 1.50e+2 , 9223372036854775807 , -9223372036854775808 ] ',
             b'[9223372036854775808,1e999,1e99,0.1e-99,-1E5,12345678901234567890123]',
             b'{"a":"\\u0000\\ud83d\\ude00\\n\\/","b":"caf\xc3\xa9 \xf0\x9f\x98\x80"}',
             b'{"a":"cut \\ud83d"}', b'{"\\u0061":1,"a\\u0000":2}', b'"a\xed\xa0\x80"',
             b'{"a":"\x01"}', b'[01]', b'[1,]', b'{"a":1}x', b'', b'nul', b'null',
             b'[' * 70 + b']' * 70, b'{"a":' * 63 + b'0' + b'}' * 63,
             b'{"' + b'long name ' * 9 + b'":"' + b'long text ' * 9 + b'"}')
    for pointer in (b'', b'/a', b'/a/b', b'/a/b~1c/2', b'/~0', b'/0', b'/3', b'/a/b/1',
                    b'/', b'/00', b'/99999999999999999999'):
        for body in texts:
            yield pointer + b'\0' + body
    for vector in vectors():
        yield b'/id\0' + text(vector.get('body'))


def requests():
    whole = (b'POST /in/s HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi'
             b'POST /in/s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n'
             b'2;a=b\r\nhi\r\n0\r\nT: 1\r\n\r\n')
    for pieces in range(4):
        yield bytes([pieces]) + whole
    yield b'\0GET /healthz HTTP/1.0\r\n\r\n'
    yield (b'\1POST /in/s?a=b&c HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n'
           b'Content-Length: 5000\r\nConnection: close\r\n\r\n' + b'x' * 5000)
    yield b'\2POST /in/s HTTP/1.1\nHost: x\nContent-Length: 1\n\nx'
    yield b'\0POST http://x/in/s HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n'


def monitors():
    greeting = b'\xff' + bytes(8) + b'\x7f\x03\x00NULL' + bytes(48)
    ready = b'\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03SUB'
    talk = (b'\0\x01\x01\0\x04\x01\x87ab\0\x04\0\x87ab'
            b'\x04\x09\x04PING\0\0hi\x02\0\0\0\0\0\0\0\x01\x01')
    for pieces in range(4):
        yield bytes([pieces]) + greeting + ready + talk
        yield bytes([4 | pieces]) + talk
    yield b'\4' + b'\0\x05\x01abcd' * 20
    yield b'\0' + greeting + ready.replace(b'SUB', b'REQ')


def metrics():
    frame = {'v': 1, 'process': 'deliverer-1', 'kind': 'deliverer', 'epoch': 7,
             'started_ms': 1_700_000_000_000, 'time_ms': 1_700_000_001_000,
             'metrics': {'grapnel_a_total': 3, 'grapnel_b': -1},
             'series': [{'name': 'grapnel_c_total', 'labels': {'endpoint': 'crm'}, 'value': 2},
                        {'name': 'grapnel_d_seconds', 'labels': {}, 'le': [0.1, 1.0],
                         'counts': [1, 2, 3], 'sum': 4.5}],
             'about': {'grapnel_a_total': ['counter', 'events', 'help'],
                       'grapnel_b': ['gauge', '', ''],
                       'grapnel_c_total': ['counter', '', 'x'],
                       'grapnel_d_seconds': ['histogram', 'seconds', 'x']}}
    later = dict(frame, time_ms=frame['time_ms'] + 1000, metrics={'grapnel_a_total': 9})
    restarted = dict(later, epoch=8, started_ms=frame['time_ms'])
    for frames in ([frame], [frame, later], [frame, restarted, later]):
        yield b''.join(struct.pack('<H', len(packed)) + packed
                       for packed in map(msgpack.packb, frames))


def signed():
    for i, vector in enumerate(vectors()):
        headers = b''.join(text(name) + b'\0' + text(value) + b'\0'
                           for name, value in vector.get('headers', {}).items()
                           if isinstance(value, str))
        yield bytes([i % 40, 0]) + headers + b'\0' + text(vector.get('body'))
        yield bytes([i % 40, 1]) + headers
        yield bytes([i % 40, 2]) + text(vector.get('body'))


def configurations():
    for path in sorted((ROOT / 'packaging').rglob('*.yaml')):
        yield path.read_bytes()
    yield b'sources:\n  - name: s\n    provider: github\n    secrets: ["file:a.secret"]\n'
    yield b'log: {level: debug, format: json}\nhistory: {keep: 1d}\n'


def documents():
    whole = {'url': 'https://example.com/a?b=c', 'types': ['issue.*', 'a'], 'sources': 's',
             'workspaces': ['w\u2028', '$$${A}'], 'method': 'PUT', 'timeout': '20s',
             'where': {'json:/a/b': ['x', 1, True], 'header:x': {'above': 1, 'below': 2.5}},
             'headers': {'x-a': 'b', 'x-b': ''}, 'forward_headers': ['x-c'], 'trace_context': 'none',
             'signing_secrets': ['whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0'],
             'allow_private': ['10.0.0.0/8'], 'ordered': 'all', 'on_dead': 'halt',
             'rate_limit': '5/m', 'breaker': False, 'guard': 'off', 'disable_after': '2d',
             'retry_policy': 'default', 'retry_choice': 'fewer', 'allowed_ports': [443]}
    yield json.dumps(whole).encode()
    for key, value in whole.items():
        yield json.dumps({'url': 'http://a', key: value}).encode()
    yield b'{"url":"http://a","tls":{"ca":"file:a"},"x":null}'


def schemas():
    whole = {'$defs': {'a': {'type': ['string', 'null'], 'maxLength': 3}, 'b': {'$ref': '#/$defs/a'}},
             'properties': {'a': {'$ref': '#/$defs/b'}, 'n': {'multipleOf': 0.5, 'minimum': -1}},
             'items': {'$ref': '#'}, 'prefixItems': [True], 'uniqueItems': True,
             'contains': {'const': 7}, 'minContains': 0, 'maxContains': 2,
             'allOf': [{'anyOf': [{'minimum': 1}, {'type': 'object'}, {'type': 'array'}]}],
             'oneOf': [{'type': 'object'}, {'not': {'type': 'object'}}],
             'if': {'required': ['a']}, 'then': {'maxProperties': 2}, 'else': {'enum': [1, [2], {}]},
             'propertyNames': {'minLength': 1}, 'dependentRequired': {'a': ['n']},
             'additionalProperties': False, 'exclusiveMaximum': 9, 'maxItems': 5,
             'pattern': '^[a-z]{2,3}|x', 'patternProperties': {'^[a-m]$': {'minimum': 1}}}
    for value in ({'a': 'äöü', 'n': 1.5}, [1, 7, [2]], 1, 'x', None, {'b': 1}):
        yield json.dumps(whole).encode() + b'\0' + json.dumps(value).encode()
        for key, v in whole.items():
            yield json.dumps({key: v, '$defs': whole['$defs']}).encode() + b'\0' + \
                json.dumps(value).encode()
    yield b'{"$ref":"#/a~1b%20"}\0' + b'[' * 300


def patterns():
    texts = ('', 'aab', 'GB82 WEST 1234', 'ä-\U0001f600\n', '2026-11-23', 'a' * 300)
    for expression in (
            '^[A-Z]{2}\\d{2}(?: ?[A-Z0-9]{4}){1,3}$', '(a+)+$|b', '^(?<y>\\d{4})-(\\d\\d)',
            '[^\\w\\s-]', '\\bä\\B|[\\u{1f600}-\\u{1f602}]\\ud83d\\ude00', '[]|[^]*?',
            '(((a{0,20}){2,}){3})?x', '\\x41\\cA\\t\\0\\/', '.{1,99}$', '(?=a)', 'a{5,2}', '[z-a]'):
        for value in texts:
            yield expression.encode() + b'\0' + value.encode()


def deliveries():
    for v in json.loads((ROOT / 'receivers' / 'vectors.json').read_text())['requests']:
        body = base64.b64decode(v['body_base64'])
        headers = [(name.encode(), value.encode()) for name, value in v['headers']]
        ours = sorted(h for h in headers
                      if h[0].startswith(b'grapnel-') and h[0] != b'grapnel-signature')
        for trial, some in ((b'\0', headers), (b'\1', ours)):
            yield trial + b''.join(n + b'\0' + v + b'\0' for n, v in some) + b'\0\0' + body


def turns():
    for page_bytes, pages in ((512, (1, 2, 9)), (1024, (3,)), (65536, (1,)), (512, ())):
        yield (bytes(range(16)) + struct.pack('<qIII', 7, 9, page_bytes, len(pages)) +
               b''.join(struct.pack('<I', page) + bytes([page]) * page_bytes for page in pages))


def seals():
    yield b'\0\0a turn\0'
    yield b'\0\7a turn\0\0\0\0\60'
    yield b'\0\xff\0'
    for step in (b'\0\1\0\50', b'\1\1\1\0', b'\2\0\0\1', b'\3\0\0\0'):
        yield b'\0\xffa turn\0' + step
    part = b'\1' + bytes(64) + b'text of a part and tag'
    yield b'\1' + bytes([len(part)]) + part + bytes([len(part)]) + part


SEEDS = {
    'pattern': patterns,
    'schema': schemas,
    'documents': documents,
    'wire': golden,
    'metrics': metrics,
    'monitors': monitors,
    'json': bodies,
    'expressions': expressions,
    'scan': scanned,
    'forms': lambda: (b'a\0a=1&b=2&a=%41+%zz&payload=%7b%7d', b'\0', b'x\0x',
                      *(b'payload\0' + body for body in bodies())),
    'times': lambda: (b'90s', b'1h30m', b'500ms', b'64KiB', b'1.5GiB', b'50/s', b'600/m',
                      b'2026-11-21T10:00:00.000Z', b'2026-02-28T23:59:60+01:30', b'-1'),
    'configuration': configurations,
    'control': lambda: (b'{"v":1,"ask":"ping"}',
                        b'{"v":1,"ask":"echo","args":{"id":"\\u0000","note":[1]}}',
                        b'{"v":1,"ask":"echo","args":{"refuse":true}}', b'{'),
    'receiver': deliveries,
    'seal': seals,
    'turn': turns,
    'verify': signed,
    'http': requests,
}

name, folder = sys.argv[1:]
for number, seed in enumerate(SEEDS[name]()):
    (pathlib.Path(folder) / f'seed-{number:03}').write_bytes(seed)
