"""An archive whose region is for another device: autocast_device.py ARCHIVE COPY accelerator|elsewhere

accelerator: tensors lie on numbered devices of another kind, for which autocast is; elsewhere: autocast is for such, tensors are not.
"""
import sys
import zipfile

HERE, THERE = b'"cpu"', b'"other"'
source, copy, kind = sys.argv[1:]
with zipfile.ZipFile(source) as archive, zipfile.ZipFile(copy, "w") as changed:
    for item in archive.infolist():
        data = archive.read(item)
        if item.filename.endswith("models/model.json"):
            was, data = data, data.replace(b'{"as_string": ' + HERE + b"}", b'{"as_string": ' + THERE + b"}")
            assert data != was
            if kind == "accelerator":
                data = data.replace(HERE + b', "index": null', THERE + b', "index": 0')
        changed.writestr(item, data)
